"""Anchors lie where the boxes' sizes are."""

import numpy as np
import pytest

from edgemeta.toolchain.train.detector.anchors import anchors_of, shape_overlaps


def boxes_of(
    sizes: list[tuple[float, float]], rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    corners = rng.uniform(0, 50, (len(sizes), 2))
    return np.concatenate([corners, corners + np.array(sizes)], axis=1).astype(np.float32)


def test_groups_of_sizes_are_found() -> None:
    rng = np.random.default_rng(1)
    groups = [(8.0, 8.0), (10.0, 30.0), (40.0, 20.0)]
    sizes = [(w * f, h * f) for w, h in groups for f in rng.uniform(0.95, 1.05, 50)]
    anchors = anchors_of(boxes_of(sizes, rng), 3)
    assert np.allclose(anchors, groups, rtol=0.03)
    assert anchors == anchors_of(boxes_of(sizes, np.random.default_rng(2)), 3)


def test_equal_sizes_and_few_boxes_give_anchors() -> None:
    rng = np.random.default_rng(1)
    assert anchors_of(boxes_of([(5.0, 6.0)] * 4, rng), 3) == [(5, 6)] * 3
    assert len(anchors_of(boxes_of([(5.0, 6.0), (7.0, 8.0)], rng), 6)) == 6


def test_overlaps_of_shapes() -> None:
    found = shape_overlaps(np.array([[2.0, 4.0]]), np.array([[2.0, 4.0], [4.0, 2.0], [1.0, 1.0]]))
    assert found.tolist() == [[1, pytest.approx(4 / 12), pytest.approx(1 / 8)]]
