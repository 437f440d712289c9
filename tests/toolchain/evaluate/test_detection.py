"""A detector whose objects are known beforehand, on images of its size and of others."""

from contextlib import closing

import numpy as np
import pytest

from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.detection import evaluate_detector
from rig.square_detector import COLOURS, COLUMNS, ROWS, square_detector, squares_picture

LABELS = tuple(COLOURS)


def drawn(scenes: list[dict[tuple[int, int], str]], side: int) -> BoxedImages:
    """Pictures of coloured cells, `side` pixels each, with the boxes of these."""
    cells = [(image, cell, label) for image, scene in enumerate(scenes) for cell, label in scene.items()]
    corners = [(side * x, side * y, side * (x + 1), side * (y + 1)) for _, (x, y), _ in cells]
    return BoxedImages(
        np.stack([squares_picture(scene, side)[..., ::-1] for scene in scenes]),
        np.array(corners, np.float32).reshape(-1, 4),
        np.array([LABELS.index(label) for _, _, label in cells], np.int64),
        np.array([image for image, _, _ in cells], np.int64),
        LABELS,
    )


def measured(images: BoxedImages) -> tuple[Precision, list[tuple[int, int]]]:
    model, steps = square_detector(), []
    with closing(choose("cpu").compile(model, {})) as session:
        result = evaluate_detector(model, session, images, lambda done, total: steps.append((done, total)))
    return result, steps


@pytest.mark.parametrize("side", [16, 32, 40])
def test_everything_is_found_at_any_size(side: int) -> None:
    rng = np.random.default_rng(side)
    places = [(int(x), int(y)) for x, y in zip(rng.integers(0, COLUMNS, 30), rng.integers(0, ROWS, 30), strict=True)]
    scenes = [{place: LABELS[i % 3] for i, place in enumerate(places[k : k + 3])} for k in range(0, 30, 3)]
    result, steps = measured(drawn(scenes, side))
    assert (result.at_half, result.mean, result.images) == (pytest.approx(1), pytest.approx(1), 10)
    assert steps[-1] == (10, 10)


def test_a_wrong_label_is_not_found() -> None:
    images = drawn([{(2, 3): "red"}, {(4, 1): "green"}], 16)
    swapped = BoxedImages(images.x, images.boxes, images.classes[::-1].copy(), images.images, LABELS)
    result, _ = measured(swapped)
    assert (result.at_half, [each.label for each in result.labels]) == (0, ["red", "green"])
