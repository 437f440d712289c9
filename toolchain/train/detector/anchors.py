"""Anchors: the sides of boxes around which those of the training images lie, by k-means (Redmon and Farhadi 2017)."""

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 300


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
