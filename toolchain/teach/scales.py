"""The features at several scales: every cell for itself, the means of a quarter of the picture, the mean of all of it.

Where something is matters for a gate, and not for a person who may stand anywhere. A mean of features is a linear
function of them, so a linear function of all scales is one of the cells alone: the network has no layer for it, and
only the regression knows of it. Each scale is divided by the root of its mean square length, and a coarser one counts
COARSE_SHARE as much as the cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgemeta.tasks.numbers import Float64

COARSE = (2, 1)
"""Cells of a side of the coarser scales."""
COARSE_SHARE = 0.3
"""What a coarser scale adds to the products of two pictures, where the cells add 1."""
_LEAST_DEVIATION = 0.2
"""A feature's deviation counts as at least so much of the mean deviation of its scale."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Means over cells x cells parts of the picture; they enter the regression as (mean of integers - mean) * factors.

    mean, factors: float64 [cells * cells * channels].
    """

    cells: int
    mean: Float64
    factors: Float64

    def rows(self, maps: Float64) -> Float64:
        """[N, H, W, C] as they enter the regression."""
        standardized: Float64 = (pooled(maps, self.cells) - self.mean) * self.factors
        return standardized

    def spread(self, weights: Float64, side: int) -> Float64:
        """Weights [cells * cells * channels, labels] of the standardized means as those of cells [H, W, C, labels]."""
        block = side // self.cells
        shaped = (weights * self.factors[:, np.newaxis]).reshape(self.cells, self.cells, -1, weights.shape[1])
        spread: Float64 = shaped.repeat(block, axis=0).repeat(block, axis=1) / block**2
        return spread


def make_scales(plain: Float64, importance: Float64) -> tuple[Scale, ...]:
    """The scales that divide a map, by the unaltered pictures [N, H, W, C]; importance: [H * W * C] of the cells."""
    side = plain.shape[1]
    scales = [_scale(plain, side, importance)]
    scales += [_scale(plain, cells, np.ones(1)) for cells in COARSE if cells < side and side % cells == 0]
    return tuple(scales)


def pooled(maps: Float64, cells: int) -> Float64:
    """Means [N, cells * cells * C] of [N, H, W, C] over equal parts, in H, W, C order."""
    count, side, _, channels = maps.shape
    block = side // cells
    means: Float64 = maps.reshape(count, cells, block, cells, block, channels).mean(axis=(2, 4)).reshape(count, -1)
    return means


def weights_of_cells(scales: Sequence[Scale], weights: Float64, side: int) -> tuple[Float64, Float64]:
    """From weights [all scales, labels] of the regression's row: those of the cells [D, labels], and what to subtract.

    The latter, [labels], is what the means of the features contribute.
    """
    offset, begin = np.zeros(weights.shape[1]), 0
    total: Float64 = np.zeros((side, side, len(scales[0].mean) // side**2, weights.shape[1]))
    for scale in scales:
        part = weights[begin : begin + len(scale.mean)]
        begin += len(scale.mean)
        total = total + scale.spread(part, side)
        offset = offset + scale.mean @ (part * scale.factors[:, np.newaxis])
    return total.reshape(-1, weights.shape[1]), offset


def _scale(plain: Float64, cells: int, importance: Float64) -> Scale:
    rows = pooled(plain, cells)
    deviation = rows.std(axis=0)
    deviation = np.maximum(deviation, max(_LEAST_DEVIATION * deviation.mean(), 1e-9))
    mean, factors = rows.mean(axis=0), importance / deviation
    length = float(np.sqrt((((rows - mean) * factors) ** 2).sum(axis=1).mean()))
    share = 1.0 if cells == plain.shape[1] else COARSE_SHARE
    return Scale(cells, mean, factors * (np.sqrt(share) / max(length, 1e-9)))
