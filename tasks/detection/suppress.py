"""Non-maximum suppression: of objects that overlap, the one with the greatest score remains."""

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.numbers import Float64

BLOCK = 64
"""Candidates that are compared at a time."""
_LATER = np.triu(np.ones((BLOCK, BLOCK), np.bool_), 1)
"""[i, j]: whether j is later than i."""


def suppress(
    boxes: Float64,
    labels: NDArray[np.int64],
    overlap_threshold: float,
    max_objects: int,
    label_overlap: float | None = None,
) -> NDArray[np.int64]:
    """Rows of the boxes [n, 4] that remain, ascending, at most max_objects. The best box comes first.

    A box remains unless it overlaps, by `overlaps` above the threshold, an earlier one of its label that remains. Of
    these a box remains unless it so overlaps, above label_overlap, an earlier one of another label that remains. Boxes
    have areas above 0.
    """
    if label_overlap is None:
        return _greedy(boxes, labels, overlap_threshold, max_objects)
    kept = _greedy(boxes, labels, overlap_threshold, len(boxes))
    return kept[_greedy(boxes[kept], labels[kept], label_overlap, max_objects, same=False)]


def _greedy(
    boxes: Float64, labels: NDArray[np.int64], threshold: float, max_objects: int, *, same: bool = True
) -> NDArray[np.int64]:
    """Rows that remain beside the earlier ones that do, of those whose labels are the same, or are not."""
    kept: list[int] = []
    for start in range(0, len(boxes), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(boxes)))
        if kept:
            earlier_ones = np.array(kept)
            block = block[~_conflicts(boxes, labels, earlier_ones, block, threshold, same).any(axis=0)]
        conflicts = _conflicts(boxes, labels, block, block, threshold, same)
        conflicts &= _LATER[: len(block), : len(block)]
        dropped: set[int] = set()
        for i, j in np.argwhere(conflicts).tolist():  # i never decreases
            if i not in dropped:
                dropped.add(j)
        kept += [row for i, row in enumerate(block.tolist()) if i not in dropped]
        if len(kept) >= max_objects:
            break
    return np.array(kept[:max_objects], np.int64)


def _conflicts(
    boxes: Float64,
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    threshold: float,
    same: bool,
) -> NDArray[np.bool_]:
    """[rows, columns]: whether two boxes have one label, or two if not `same`, and overlap too much."""
    result: NDArray[np.bool_] = overlaps(boxes[rows], boxes[columns]) > threshold
    result &= (labels[rows, np.newaxis] == labels[columns]) == same
    return result


def overlaps(a: Float64, b: Float64) -> Float64:
    """Intersection over union [n, m] of boxes [n, 4] and [m, 4], whose areas are above 0."""
    shared = intersections(a, b)
    union = areas(a)[:, np.newaxis] + areas(b)
    union -= shared
    shared /= union
    return shared


def intersections(a: Float64, b: Float64) -> Float64:
    """Areas [n, m] that boxes [n, 4] and [m, 4] share."""
    first = np.maximum(a[:, np.newaxis, :2], b[:, :2])
    sides = np.minimum(a[:, np.newaxis, 2:], b[:, 2:])
    sides -= first
    np.maximum(sides, 0.0, out=sides)
    shared: Float64 = sides[..., 0] * sides[..., 1]
    return shared


def areas(boxes: Float64) -> Float64:
    """Areas [n] of boxes [n, 4]."""
    area: Float64 = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return area
