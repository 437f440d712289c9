"""Mean average precision of a detector, as the COCO evaluation defines it (Lin et al. 2014; cocoeval).

For one label and one least overlap: the objects found in all images, the best score first, are compared with the boxes
of that label. A found object takes the free box of its image that it overlaps most, if by at least that much; then it
is right, otherwise wrong. Precision after each object is the share of right ones so far; recall is the share of boxes
that were found. Precision at a recall is the greatest one at that recall or a greater one; average precision is its
mean over the recalls 0, 0.01, .. 1, with 0 where a recall is not reached.

Boxes that are difficult are neither found nor missed: an object that takes no plain box, and overlaps a difficult one
by that much, does not count. A label counts only in the images in which it was annotated.

Of each image and label the best 100 objects count. Objects of equal score count in their order: by image, then as
found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import overlaps
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.labelled_images import first_places

LEAST_SCORE = 0.001
"""Objects that score less are not looked for: no threshold can ask for them."""
WATCHED_SCORE = 0.01
"""The same where means are only compared, as in trainings and searches, or scores are fitted: less takes time."""
MOST_OBJECTS = 100
OVERLAPS = tuple(0.5 + 0.05 * step for step in range(10))
"""Least intersection over union, 0.5 .. 0.95."""
RIGHT, WRONG, NEITHER = 1, 0, -1
"""What a found object is."""
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class LabelPrecision:
    """Average precision 0..1 of a label that has boxes: at the least overlap 0.5, and the mean of all OVERLAPS."""

    label: str
    boxes: int
    at_half: float
    mean: float


@dataclass(frozen=True)
class Precision:
    """Mean average precision 0..1 over the labels that have boxes, and of each of them, the worst first.

    at_half: at the least overlap 0.5 (mAP@0.5). mean: the mean of all OVERLAPS (mAP@[0.5:0.95]). images: their number.
    """

    at_half: float
    mean: float
    labels: tuple[LabelPrecision, ...]
    images: int


def mean_average_precision(found: Sequence[Sequence[Object]], wanted: BoxedImages) -> Precision:
    """Of the objects found in each image, best first, beside its boxes."""
    rows = []
    numbers = first_places(wanted.labels)
    same = np.array([numbers[label] for label in wanted.labels], np.int64)
    wanted = replace(wanted, classes=same[wanted.classes])
    objects = [_Found.of(some, numbers) for some in found]
    for number, label in enumerate(wanted.labels):
        boxes = int((_plain(wanted) & (wanted.classes == number)).sum())
        if boxes:
            precisions = _average_precisions(objects, wanted, number, boxes)
            rows.append(LabelPrecision(label, boxes, float(precisions[0]), float(precisions.mean())))
    if not rows:
        return Precision(0.0, 0.0, (), len(wanted))
    at_half, every = (float(np.mean([getattr(row, name) for row in rows])) for name in ("at_half", "mean"))
    return Precision(at_half, every, tuple(sorted(rows, key=lambda row: row.mean)), len(wanted))


@dataclass(frozen=True, eq=False)
class _Found:
    """The objects of one image: boxes [n, 4], scores [n], classes [n]."""

    boxes: Float64
    scores: Float64
    classes: NDArray[np.int64]

    @staticmethod
    def of(objects: Sequence[Object], numbers: Mapping[str, int]) -> "_Found":
        boxes = np.array([each.box for each in objects], np.float64).reshape(-1, 4)
        scores = np.array([each.score for each in objects], np.float64)
        return _Found(boxes, scores, np.array([numbers[each.label] for each in objects], np.int64))


def _average_precisions(found: Sequence[_Found], wanted: BoxedImages, number: int, boxes: int) -> Float64:
    """Of one label, at each of OVERLAPS."""
    scores, states, _ = _states(found, wanted, number, OVERLAPS)
    order = np.argsort(-scores, kind="stable")
    ranked = states[:, order]
    return np.array([average_precision(row[row != NEITHER] == RIGHT, boxes) for row in ranked])


@dataclass(frozen=True, eq=False)
class JudgedObjects:
    """Objects that were right or wrong, those that are neither left out: of each its image, label, score and which.

    images, classes: int64 [n], places among the images and the labels. scores: [n]. right: bool [n].
    """

    images: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: Float64
    right: NDArray[np.bool_]


def judged_objects(
    found: Sequence[Sequence[Object]], wanted: BoxedImages, least: float = 0.5, same: float | None = None
) -> JudgedObjects:
    """Which of the objects found in each image, best first, are right at this least overlap.

    Where its label was not annotated an object is left out. same: but the best one that overlaps a box of another label
    by more is what that box shows, and wrong. Of these as many count as of the right ones of their label, evenly
    chosen: how often others were annotated does not say how often each is seen.
    """
    numbers = {label: number for number, label in enumerate(wanted.labels)}
    objects = [_Found.of(some, numbers) for some in found]
    rows: list[tuple[NDArray[Any], ...]] = []
    for number in range(len(wanted.labels)):
        scores, states, images = _states(objects, wanted, number, (least,))
        counts = states[0] != NEITHER
        label = np.full(int(counts.sum()), number)
        rows.append((images[counts], label, scores[counts], states[0][counts] == RIGHT))
        if same is not None:
            others, other_scores = _mistaken(objects, wanted, number, same)
            right = int((states[0] == RIGHT).sum())
            chosen = np.linspace(0, len(others) - 1, min(len(others), right)).astype(np.int64)
            rows.append((others[chosen], label[: len(chosen)], other_scores[chosen], np.zeros(len(chosen), np.bool_)))
    return JudgedObjects(*(np.concatenate([row[i] for row in rows]) for i in range(4)))


def _mistaken(
    found: Sequence[_Found], wanted: BoxedImages, number: int, same: float
) -> tuple[NDArray[np.int64], Float64]:
    """Images and scores [n] of the best objects of a label, not annotated there, that are what other boxes show."""
    images, scores = [np.empty(0, np.int64)], [np.empty(0)]
    others = _plain(wanted) & (wanted.classes != number)
    for image, some in enumerate(found):
        mine = np.flatnonzero(some.classes == number)
        if len(mine) and wanted.known is not None and not wanted.known[image, number]:
            first, last = np.searchsorted(wanted.images, (image, image + 1))
            boxes = wanted.boxes[first:last][others[first:last]].astype(np.float64)
            shown = overlaps(some.boxes[mine], boxes) > same
            mine = mine[np.unique(shown.argmax(axis=0)[shown.any(axis=0)])]
            images.append(np.full(len(mine), image))
            scores.append(some.scores[mine])
    return np.concatenate(images), np.concatenate(scores)


def _states(
    found: Sequence[_Found], wanted: BoxedImages, number: int, least: Sequence[float]
) -> tuple[Float64, NDArray[np.int64], NDArray[np.int64]]:
    """Of the n objects of one label: scores [n], at each of these overlaps what they are [overlaps, n], images [n]."""
    scores, states, images = [np.empty(0)], [np.empty((len(least), 0), np.int64)], [np.empty(0, np.int64)]
    plain = _plain(wanted)
    for image, some in enumerate(found):
        mine = np.flatnonzero(some.classes == number)[:MOST_OBJECTS]
        if len(mine) and (wanted.known is None or wanted.known[image, number]):
            first, last = np.searchsorted(wanted.images, (image, image + 1))
            its = first + np.flatnonzero(wanted.classes[first:last] == number)
            shared = overlaps(some.boxes[mine], wanted.boxes[its].astype(np.float64))
            scores.append(some.scores[mine])
            states.append(np.array([judged(shared[:, plain[its]], shared[:, ~plain[its]], at) for at in least]))
            images.append(np.full(len(mine), image))
    return np.concatenate(scores), np.concatenate(states, axis=1), np.concatenate(images)


def _plain(wanted: BoxedImages) -> NDArray[np.bool_]:
    """Which boxes are not difficult."""
    return np.ones(len(wanted.boxes), np.bool_) if wanted.difficult is None else ~wanted.difficult


def judged(shared: Float64, difficult: Float64, least: float) -> list[int]:
    """RIGHT, WRONG or NEITHER for each found object, best first.

    shared, difficult: overlaps of the found with the plain and with the difficult boxes [found, boxes].
    """
    free = shared.copy()
    states = []
    for row, beside in zip(free, difficult, strict=True):
        best = len(row) - 1 - int(row[::-1].argmax()) if len(row) else 0  # at a tie the last one, as cocoeval has it
        if len(row) and row[best] >= least:
            free[:, best] = -1.0
            states.append(RIGHT)
        else:
            states.append(NEITHER if (beside >= least).any() else WRONG)
    return states


def average_precision(right: NDArray[np.bool_], boxes: int) -> float:
    """Mean precision at 101 recalls. right [n]: of the objects of all images, best first; boxes: how many there are."""
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(right) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(hits / boxes, _RECALLS, side="left")
    return float(np.concatenate([precision, [0.0]])[np.minimum(places, len(right))].mean())
