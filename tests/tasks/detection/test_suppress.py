"""Suppression equals comparing one by one, at every size around a block."""

from collections.abc import Iterable

import numpy as np
import pytest

from edgemeta.tasks.detection.suppress import BLOCK, overlaps, suppress
from edgemeta.tasks.numbers import Float64


def one_by_one(
    boxes: Float64, labels: list[int], threshold: float, most: int, label_overlap: float | None = None
) -> list[int]:
    kept = excluded_by_better(boxes, labels, range(len(boxes)), threshold, same=True)
    if label_overlap is not None:
        kept = excluded_by_better(boxes, labels, kept, label_overlap, same=False)
    return kept[:most]


def excluded_by_better(
    boxes: Float64, labels: list[int], rows: Iterable[int], threshold: float, *, same: bool
) -> list[int]:
    kept: list[int] = []
    for i in rows:
        x0, y0, x1, y1 = boxes[i].tolist()
        for j in kept:
            a0, b0, a1, b1 = boxes[j].tolist()
            shared = max(0.0, min(x1, a1) - max(x0, a0)) * max(0.0, min(y1, b1) - max(y0, b0))
            union = (a1 - a0) * (b1 - b0) + (x1 - x0) * (y1 - y0) - shared
            if (labels[i] == labels[j]) == same and shared / union > threshold:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.gate("5 s: the plain form of many boxes")
@pytest.mark.parametrize("count", [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 500])
@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_random_boxes(count: int, spread: float) -> None:
    rng = np.random.default_rng(count)
    corner, sides = rng.uniform(0, spread, (count, 2)), rng.uniform(0.1, 20, (count, 2))
    boxes = np.concatenate([corner, corner + sides], axis=1)
    for labels in (np.zeros(count, np.int64), rng.integers(0, 3, count)):
        for threshold, most in ((0.01, 1000), (0.5, 1000), (0.5, 70), (0.99, 5)):
            for label_overlap in (None, 0.02, 0.5):
                kept = suppress(boxes, labels, threshold, most, label_overlap)
                assert kept.tolist() == one_by_one(boxes, labels.tolist(), threshold, most, label_overlap)


def test_equal_boxes_leave_the_first_of_each_label() -> None:
    boxes = np.tile(np.array([1.0, 2, 3, 4]), (200, 1))
    assert suppress(boxes, np.arange(200) % 3, 0.5, 100).tolist() == [0, 1, 2]


def test_an_overlap_of_exactly_the_threshold_remains() -> None:
    boxes = np.array([[0.0, 0, 2, 1], [1, 0, 3, 1]])  # a third
    assert overlaps(boxes, boxes)[0, 1] == 1 / 3
    labels = np.zeros(2, np.int64)
    assert suppress(boxes, labels, 1 / 3, 100).tolist() == [0, 1]
    assert suppress(boxes, labels, 0.33, 100).tolist() == [0]


def test_a_suppressed_box_suppresses_nothing() -> None:
    """The second overlaps the first, the third only the second."""
    boxes = np.array([[0.0, 0, 10, 1], [4, 0, 14, 1], [8, 0, 18, 1]])
    assert suppress(boxes, np.zeros(3, np.int64), 0.4, 100).tolist() == [0, 2]


def test_boxes_of_different_labels_are_one_object_from_their_own_overlap_on() -> None:
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 8], [20, 0, 30, 10], [20, 0, 30, 7]])  # overlaps 0.8 and 0.7
    labels = np.array([0, 1, 0, 1])
    assert suppress(boxes, labels, 0.5, 100).tolist() == [0, 1, 2, 3]
    assert suppress(boxes, labels, 0.5, 100, 0.75).tolist() == [0, 2, 3]
    assert suppress(boxes, labels, 0.5, 2, 0.75).tolist() == [0, 2], "as many remain as are wanted"
    same = np.zeros(4, np.int64)
    assert suppress(boxes, same, 0.9, 100, 0.1).tolist() == [0, 1, 2, 3], "one label has its own overlap"


def test_a_label_is_compared_with_itself_before_others() -> None:
    """The third overlaps the second, its own label, and not the first enough: it goes with the second."""
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 6]])
    assert suppress(boxes, np.array([0, 1, 1]), 0.6, 100, 0.7).tolist() == [0]
