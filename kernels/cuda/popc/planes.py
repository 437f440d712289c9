"""Weights as bit planes: w = total[o] + sum over b of factors[o, b] * planes[b, o].

With the planes x_j of the activations, x = least + sum over j of 2**j x_j, where `least` is their type's least integer,

    sum of w x = least * sum of w + sum over b of factors[b] * sum over j of 2**j popcount(planes[b] AND x_j)
                 + total * sum of (x - least)

Bases of -1 and +1 have the bit of +1 as their plane: c m = 2 c p - c. Weights of two values have one plane, for the
value that is not 0; other weights of -2 .. 1 have the planes of two's complement, of which the last counts negative.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.weights import BinaryWeights, Weights

_LEAST, _GREATEST = -2, 1
"""Weights of two planes of two's complement."""


@dataclass(frozen=True, eq=False)
class WeightPlanes:
    """planes: bool [B, O, ...]. factors: int64 [O, B]. totals: int64 [O]."""

    planes: NDArray[np.bool_]
    factors: NDArray[np.int64]
    totals: NDArray[np.int64]

    @property
    def has_totals(self) -> bool:
        """Whether the sum of the activations takes part."""
        return bool(self.totals.any())


def planes_of(weights: Weights) -> WeightPlanes | None:
    """The planes of bases, and of weights of at most two bits; None for others."""
    if isinstance(weights, BinaryWeights):
        factors = weights.factors.astype(np.int64)
        return WeightPlanes(weights.basis > 0, 2 * factors, -factors.sum(axis=1))
    decoded = weights.decode()
    values, filters = np.unique(decoded), len(decoded)
    if len(values) <= 2:
        common = 0 if 0 in values or len(values) == 1 else int(values[0])
        other = int(values[-1] if values[-1] != common else values[0])
        planes = (decoded == other)[None]
        return WeightPlanes(planes, np.full((filters, 1), other - common, np.int64), np.full(filters, common, np.int64))
    if values[0] < _LEAST or values[-1] > _GREATEST:
        return None
    planes = np.stack([decoded & 1, decoded >> 1 & 1]).astype(np.bool_)
    return WeightPlanes(planes, np.tile(np.array([1, -2], np.int64), (filters, 1)), np.zeros(filters, np.int64))
