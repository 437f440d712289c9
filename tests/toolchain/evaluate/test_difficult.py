"""Difficult boxes are neither missed nor found, and a label counts only where it was annotated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import overlaps
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.evaluate.average_precision import judged_objects, mean_average_precision

LABELS = ("cup", "pen")


def made(seed: int) -> tuple[BoxedImages, list[list[Object]]]:
    """Boxes that overlap no other one, and objects on some of them or beside all."""
    rng = np.random.default_rng(seed)
    boxes, classes, images = [], [], []
    found: list[list[Object]] = [[] for _ in range(4)]
    for image in range(4):
        for place in range(int(rng.integers(1, 5))):
            box = (20 * place, 0, 20 * place + int(rng.integers(8, 16)), int(rng.integers(8, 16)))
            boxes.append(box)
            classes.append(int(rng.integers(2)))
            images.append(image)
            for _ in range(int(rng.integers(0, 3))):
                shifted = np.array(box, np.float64) + rng.normal(0, 1, 4)
                found[image].append(Object(LABELS[classes[-1]], float(rng.random()), tuple(shifted.tolist())))
        found[image].append(Object(LABELS[int(rng.integers(2))], float(rng.random()), (0, 50, 9, 59)))
        found[image].sort(key=lambda each: -each.score)
    data = BoxedImages(
        np.zeros((4, 60, 100, 3), np.uint8),
        np.array(boxes, np.float32),
        np.array(classes),
        np.array(images),
        LABELS,
        rng.random(len(boxes)) < 0.3,
        rng.random((4, 2)) < 0.7,
    )
    known = data.known
    assert known is not None
    known[data.images, data.classes] = True
    return data, found


@given(st.integers(0, 10_000))
def test_they_are_as_if_they_and_what_lies_on_them_were_not_there(seed: int) -> None:
    data, found = made(seed)
    assert data.difficult is not None
    kept = ~data.difficult
    plain = replace(
        data, boxes=data.boxes[kept], classes=data.classes[kept], images=data.images[kept], difficult=None, known=None
    )
    others = []
    for image, some in enumerate(found):
        mine = (data.images == image) & data.difficult
        others.append([each for each in some if not _on(each, data, mine) and _known(each, data, image)])
    assert mean_average_precision(found, data).at_half == mean_average_precision(others, plain).at_half


def _on(found: Object, data: BoxedImages, boxes: np.ndarray) -> bool:
    mine = boxes & (data.classes == LABELS.index(found.label))
    shared = overlaps(np.array([found.box], np.float64), data.boxes[mine].astype(np.float64))
    return bool((shared >= 0.5).any())


def _known(found: Object, data: BoxedImages, image: int) -> bool:
    assert data.known is not None
    return bool(data.known[image, LABELS.index(found.label)])


def test_what_another_box_shows_is_judged_as_often_as_the_label_was_right() -> None:
    """Pens were annotated in the first two pictures alone; in the others they are found in the boxes of cups."""
    box, near, far = (0.0, 0.0, 20.0, 10.0), (0.0, 0.0, 20.0, 9.0), (0.0, 0.0, 20.0, 6.0)
    data = BoxedImages(
        np.zeros((6, 60, 100, 3), np.uint8),
        np.array([box] * 6, np.float32),
        np.array([1, 1, 0, 0, 0, 0]),
        np.arange(6),
        LABELS,
        known=np.array([[True, True]] * 2 + [[True, False]] * 4),
    )
    pens = [[Object("pen", 0.9 - 0.1 * number, near), Object("pen", 0.05, box)] for number in range(6)]
    plain = judged_objects(pens, data)
    assert plain.images.tolist() == [0, 0, 1, 1]
    judged = judged_objects(pens, data, same=0.75)
    assert judged.images.tolist() == [0, 0, 1, 1, 2, 5], "as many as are right, evenly chosen, the best of each box"
    assert judged.right.tolist() == [True, False, True, False, False, False]
    assert judged.scores[4:].tolist() == pytest.approx([0.7, 0.4])
    few = [[Object("pen", 0.8, far)] for _ in range(6)]
    assert judged_objects(few, data, same=0.75).images.tolist() == [0, 1], "they may be something else"
