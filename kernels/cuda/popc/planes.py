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

from edgemeta.kernels.cuda.popc.tiles import WORD_BITS, Geometry, Tile, blocks, passes
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


def packed_planes(weights: WeightPlanes, channels: int, geometry: Geometry, tile: Tile) -> NDArray[np.int32]:
    """int32 [block of filters][pass][base][word][filter of the block], bits as in the kernel's windows.

    Bit 8 i + g of a word is channel i of its four g. Bits of channels, words and filters that do not exist are 0.
    """
    bases, filters = weights.planes.shape[:2]
    along, rounds = blocks(geometry, tile)[1], passes(geometry, tile)
    taps = weights.planes.reshape(bases, filters, -1, channels)
    full = np.zeros((bases, along * tile.block_filters, taps.shape[2], -(-channels // 4) * 4), np.bool_)
    full[:, :filters, :, :channels] = taps
    lines = full.reshape(bases, along * tile.block_filters, -1)
    bits = np.zeros((*lines.shape[:2], rounds * tile.chunk * WORD_BITS), np.bool_)
    bits[:, :, : lines.shape[2]] = lines
    ordered = bits.reshape(bases, along, tile.block_filters, rounds, tile.chunk, 8, 4).swapaxes(-1, -2)
    packed = np.packbits(ordered.reshape(*ordered.shape[:5], WORD_BITS), axis=-1, bitorder="little")
    words = packed.view("<i4").reshape(bases, along, tile.block_filters, rounds, tile.chunk)
    return np.ascontiguousarray(words.transpose(1, 3, 0, 4, 2), np.int32)


def packed_factors(planes: WeightPlanes, padded: int) -> NDArray[np.int32]:
    """int32 [base, at last the sum of the activations][filter]."""
    rows = np.zeros((planes.factors.shape[1] + 1, padded), np.int32)
    rows[:-1, : len(planes.factors)] = planes.factors.T
    rows[-1, : len(planes.totals)] = planes.totals
    return rows
