"""Which cells answer for a box, and what wrong answers cost, computed once more box by box."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from edgemeta.toolchain.train.detector.loss import (
    ALSO,
    BOX_WEIGHT,
    NEAR,
    Boxes,
    DetectionLoss,
    anchors_of,
    generalized_overlap,
    overlap,
    shape_overlaps,
)
from edgemeta.toolchain.train.detector.network import ANCHORS, PARTS, STRIDES, task_of

LABELS = ("cup", "pen", "key")
ANCHOR_SIZES = [(6.0, 9.0), (12.0, 10.0), (14.0, 20.0), (30.0, 24.0), (40.0, 50.0), (60.0, 58.0)]
TASK = task_of(LABELS, ANCHOR_SIZES)
SIZE = 64


def some_boxes(rng: np.random.Generator, count: int, images: int) -> Boxes:
    corner = rng.uniform(0, SIZE - 4, (count, 2))
    corners = np.concatenate([corner, np.minimum(corner + rng.uniform(3, 60, (count, 2)), SIZE)], 1)
    numbers = np.sort(rng.integers(0, images, count))
    classes = rng.integers(0, len(LABELS), count)
    return Boxes(torch.from_numpy(corners.astype(np.float32)), torch.from_numpy(classes), torch.from_numpy(numbers))


def some_outputs(rng: np.random.Generator, images: int) -> tuple[Tensor, ...]:
    shapes = [(images, ANCHORS * n, SIZE // stride, SIZE // stride) for stride in STRIDES for n in (4, 1, 3)]
    return tuple(torch.from_numpy(rng.normal(0, 1, shape).astype(np.float32)) for shape in shapes)


def by_hand(outputs: tuple[Tensor, ...], boxes: Boxes) -> float:
    """The loss in Python's floats, cell by cell."""
    answers = set()
    shapes = [anchor for level in TASK.levels for anchor in level.anchors]
    for number, corners in enumerate(boxes.corners.tolist()):
        width, height = corners[2] - corners[0], corners[3] - corners[1]

        def likeness(anchor: tuple[float, float], w: float = width, h: float = height) -> float:
            shared = min(anchor[0], w) * min(anchor[1], h)
            return shared / (anchor[0] * anchor[1] + w * h - shared)

        likenesses = [likeness(anchor) for anchor in shapes]
        for place, value in enumerate(likenesses):
            if value >= ALSO or place == likenesses.index(max(likenesses)):
                level, stride = place // ANCHORS, STRIDES[place // ANCHORS]
                x, y = (corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2
                cell = int(y / stride), int(x / stride)
                answers.add((level, int(boxes.images[number]), place % ANCHORS, *cell, number))

    def entropy(logit: float, wanted: float) -> float:
        score = 1 / (1 + math.exp(-logit))
        return -math.log(score if wanted else 1 - score)

    total = 0.0
    for level, stride in enumerate(STRIDES):
        numbers, objectness, classes = outputs[len(PARTS) * level : len(PARTS) * (level + 1)]
        for image, anchor, row, column in np.ndindex(*(len(numbers), ANCHORS, *numbers.shape[2:])):
            t = numbers[image, 4 * anchor : 4 * anchor + 4, row, column].tolist()
            x, y = ((place + 1 / (1 + math.exp(-shift))) * stride for place, shift in ((column, t[0]), (row, t[1])))
            w, h = (math.exp(size) * side for size, side in zip(t[2:], TASK.levels[level].anchors[anchor], strict=True))
            found = torch.tensor([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
            mine = [each[-1] for each in answers if each[:-1] == (level, image, anchor, row, column)]
            theirs = boxes.corners[boxes.images == image]
            is_near = len(theirs) and float(overlap(found, theirs).max()) > NEAR
            if mine or not is_near:
                total += entropy(float(objectness[image, anchor, row, column]), float(bool(mine)))
            for number in mine:
                total += BOX_WEIGHT * (1 - float(generalized_overlap(found, boxes.corners[number])))
                logits = classes[image, 3 * anchor : 3 * anchor + 3, row, column].tolist()
                label = int(boxes.classes[number])
                total += sum(entropy(logit, float(place == label)) for place, logit in enumerate(logits))
    return total / max(1, len(answers))


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_loss_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes, outputs = some_boxes(rng, 7, 3), some_outputs(rng, 3)
    assert float(DetectionLoss(TASK)(outputs, boxes)) == pytest.approx(by_hand(outputs, boxes), rel=1e-4)


def test_images_without_boxes() -> None:
    rng = np.random.default_rng(9)
    boxes, outputs = some_boxes(rng, 0, 2), some_outputs(rng, 2)
    assert float(DetectionLoss(TASK)(outputs, boxes)) == pytest.approx(by_hand(outputs, boxes), rel=1e-4)


def test_overlaps_by_hand() -> None:
    a, b = torch.tensor([0.0, 0, 4, 4]), torch.tensor([2.0, 2, 6, 6])
    assert float(overlap(a, b)) == pytest.approx(4 / 28)
    assert float(generalized_overlap(a, b)) == pytest.approx(4 / 28 - 8 / 36)
    far = torch.tensor([10.0, 10, 12, 12])
    assert float(overlap(a, far)) == 0
    assert float(generalized_overlap(a, far)) < 0
    assert float(generalized_overlap(a, a)) == 1


def test_descent_finds_the_boxes() -> None:
    """Free outputs, moved down the gradient, end with the boxes and their classes, and no objects elsewhere."""
    rng = np.random.default_rng(2)
    boxes = some_boxes(rng, 3, 2)
    outputs = tuple(each.requires_grad_() for each in some_outputs(rng, 2))
    loss, optimizer = DetectionLoss(TASK), torch.optim.Adam(outputs, 0.1)
    first = loss(outputs, boxes).item()
    for _ in range(300):
        optimizer.zero_grad()
        value = loss(outputs, boxes)
        value.backward()
        optimizer.step()
    assert value.item() < 0.05 * first


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
