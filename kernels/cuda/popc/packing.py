"""Constants of the popcount kernel in the order in which its threads read them."""

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.popc.planes import WeightPlanes
from edgemeta.kernels.cuda.popc.tiles import WORD_BITS, Geometry, Tile, blocks, passes


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
