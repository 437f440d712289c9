"""The loss of a detection of decoding "yolov3": which cells and anchors answer for a box, and how wrong they are.

A box belongs to the cell that holds its centre: to the anchor whose shape overlaps its own most, and to every other one
that does by at least ALSO. There, the predicted box is to be that box (1 - generalized intersection over union,
Rezatofighi et al. 2019), the objectness 1 and the class its own. Everywhere else the objectness is to be 0, except
where the predicted box overlaps some box by more than NEAR: a second answer that is nearly right is left alone.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edgemeta.model.tasks import Detection
from edgemeta.toolchain.train.detector.network import ANCHORS, PARTS, STRIDES, by_anchor, decoded

ALSO, NEAR = 0.5, 0.6
BOX_WEIGHT = 2.0

_ROUNDS = 300


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes of a batch. corners: float32 [M, 4], in pixels; classes, images: int64 [M]; images: place in it."""

    corners: Tensor
    classes: Tensor
    images: Tensor


@dataclass(frozen=True, eq=False)
class Answers:
    """The cells and anchors of one level that answer for boxes. place: image, anchor, row, column; box: which."""

    place: tuple[Tensor, Tensor, Tensor, Tensor]
    box: Tensor


class DetectionLoss:
    """The loss of a batch, for the levels of a task."""

    def __init__(self, task: Detection) -> None:
        self._anchors = [torch.tensor(level.anchors, dtype=torch.float32) for level in task.levels]
        self._every = np.array([anchor for level in task.levels for anchor in level.anchors], np.float64)
        self._labels = len(task.labels)

    def __call__(self, outputs: tuple[Tensor, ...], boxes: Boxes) -> Tensor:
        """A scalar with a gradient. outputs: of `tiny_yolo`.

        Sums over all boxes of the batch and cells, divided by the number of answers.
        """
        total = torch.zeros(())
        every = self.answers(boxes)
        count = max(1, sum(len(answers.box) for answers in every))
        for number, (answers, stride) in enumerate(zip(every, STRIDES, strict=True)):
            parts = outputs[len(PARTS) * number : len(PARTS) * (number + 1)]
            numbers, objectness, classes = (by_anchor(part) for part in parts)
            found = decoded(numbers, self._anchors[number], stride)
            wanted = torch.zeros_like(objectness[..., 0])
            wanted[answers.place] = 1.0
            counts = (wanted > 0) | ~_overlaps_some(found.detach(), boxes)
            unsure = functional.binary_cross_entropy_with_logits(objectness[..., 0], wanted, reduction="none")
            total = total + (unsure * counts).sum()
            corners, labels = boxes.corners[answers.box], boxes.classes[answers.box]
            total = total + BOX_WEIGHT * (1 - generalized_overlap(found[answers.place], corners)).sum()
            right = functional.one_hot(labels, self._labels).float()
            total = total + functional.binary_cross_entropy_with_logits(classes[answers.place], right, reduction="sum")
        return total / count

    def answers(self, boxes: Boxes) -> list[Answers]:
        """Of each level."""
        sizes = (boxes.corners[:, 2:] - boxes.corners[:, :2]).double().numpy()
        shapes: NDArray[np.float64] = shape_overlaps(sizes, self._every)
        takes = shapes >= ALSO
        if len(takes):
            takes[np.arange(len(takes)), shapes.argmax(1)] = True
        centres = (boxes.corners[:, :2] + boxes.corners[:, 2:]) / 2
        found = []
        for number, stride in enumerate(STRIDES):
            box, anchor = np.nonzero(takes[:, ANCHORS * number : ANCHORS * (number + 1)])
            which = torch.from_numpy(box)
            column, row = (centres[which] / stride).long().unbind(1)
            found.append(Answers((boxes.images[which], torch.from_numpy(anchor), row, column), which))
        return found


def _overlaps_some(found: Tensor, boxes: Boxes) -> Tensor:
    """Which predicted boxes [B, A, H, W, 4] overlap some box of their image by more than NEAR: bool [B, A, H, W]."""
    result = torch.zeros(found.shape[:-1], dtype=torch.bool)
    counts = torch.bincount(boxes.images, minlength=len(found))
    first = torch.cumsum(counts, 0) - counts
    for turn in range(int(counts.max()) if len(boxes.images) else 0):
        has = torch.nonzero(counts > turn).squeeze(1)
        corners = boxes.corners[first[has] + turn][:, None, None, None]
        result[has] |= overlap(found[has], corners) > NEAR
    return result


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes [..., 4], element by element."""
    return _parts(a, b)[0]


def generalized_overlap(a: Tensor, b: Tensor) -> Tensor:
    """`overlap` of boxes [..., 4] less the share of the smallest box around both that neither covers; -1 .. 1."""
    share, union = _parts(a, b)
    around = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    area = around.prod(-1)
    return share - (area - union) / area


def _parts(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection over union, and union."""
    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    shared = sides.clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - shared
    return shared / union, union


def anchors_of(boxes: NDArray[np.float32], count: int) -> list[tuple[float, float]]:
    """`count` widths and heights in pixels, the smallest area first; boxes: [M, 4], x0, y0, x1, y1, M >= 1.

    The distance of two sizes is 1 minus the overlap of such boxes with one centre. It begins with sizes that share the
    boxes evenly by area, so the same boxes always give the same anchors.
    """
    sizes = (boxes[:, 2:] - boxes[:, :2]).astype(np.float64)
    ranked = sizes[np.argsort(sizes.prod(1), kind="stable")]
    anchors = ranked[((np.arange(count) + 0.5) * len(ranked) / count).astype(np.int64)]
    groups = np.full(len(sizes), -1)
    for _ in range(_ROUNDS):
        nearest = shape_overlaps(sizes, anchors).argmax(1)
        if (nearest == groups).all():
            break
        groups = nearest
        means = [sizes[groups == i].mean(0) if (groups == i).any() else anchors[i] for i in range(count)]
        anchors = np.array(means)
    return [(round(w, 2), round(h, 2)) for w, h in sorted(anchors.tolist(), key=lambda side: side[0] * side[1])]


def shape_overlaps(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union [n, m] of boxes with one centre, of widths and heights [n, 2] and [m, 2]."""
    shared = np.minimum(a[:, None], b).prod(2)
    overlap: NDArray[np.float64] = shared / (a.prod(1)[:, None] + b.prod(1) - shared)
    return overlap
