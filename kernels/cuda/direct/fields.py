"""Several products in one 16-bit multiplication: weights of neighbouring filters as fields of one number.

A weight word is W = sum over i < count of w[i] * 2**(i * bits); an activation times W has the products as fields. A
sum of them starts with 2**(bits - 1) in every field but the last one, so with F[i] the sum of the products of filter i

    sum = sum over i of 2**(i * bits) * (F[i] + half[i]),  half[i] = 2**(bits - 1) for i < count - 1, else 0.

The fields are its digits, and none touches another one, exactly if

    |W| <= 32767                                            W is int16,
    -2**(bits - 1) <= F[i] < 2**(bits - 1)                   i < count - 1: a digit is 0 .. 2**bits - 1,
    |F[count - 1]| < 2**(31 - (count - 1) * bits)            the whole is int32.

Before any of these can fail the fields are added to int32 sums. A word of input channels has two channels; what the
taps of a kernel row add to a field for one word is at most B in magnitude, the greatest over all words, rows and
filters, so `planes` words may be added: planes * B <= 2**(bits - 1) - 1, and the same for the last field.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType

_CHANNELS_OF_WORD = 2
_MOST_PLANES = 4
"""Words whose products are unrolled: more make the code long, and unpacking is then a small part."""


@dataclass(frozen=True)
class Fields:
    """count: filters of a word. bits: of a field but the last one. planes: words that may be added up at once."""

    count: int = 1
    bits: int = 0
    planes: int = 1

    @property
    def start(self) -> int:
        """Initial value of a packed sum."""
        return sum(1 << (i * self.bits + self.bits - 1) for i in range(self.count - 1))


PLAIN = Fields()
"""One product in a multiplication."""


def possible_fields(weights: NDArray[np.int32], source: TensorType) -> list[Fields]:
    """Ways to pack weights [filters, rows, columns, channels] of a convolution of this input; empty if none fits."""
    low, high = int(min(weights.min(), 0)), int(max(weights.max(), 0))
    one_product = max(-low, high) * max(-source.lo, source.hi)
    bound, found = 0, []
    for count in (3, 2):
        bits = _greatest_bits(count, low, high)
        most = min((1 << bits >> 1) - 1, (1 << (31 - (count - 1) * bits)) - 1)
        if most < one_product or one_product == 0:
            continue
        bound = bound or _greatest_part(weights, source)
        if most // bound:
            found.append(Fields(count, bits, min(_MOST_PLANES, most // bound)))
    return found


def packed_filters(weights: NDArray[np.int32], fields: Fields, filters: int) -> NDArray[np.int32]:
    """Words [groups, words, ...] of weights [groups * filters, ...]: the filters of a group that a thread computes."""
    words = -(-filters // fields.count)
    groups = weights.reshape(-1, filters, *weights.shape[1:])
    missing = [(0, 0), (0, words * fields.count - filters), *[(0, 0)] * (weights.ndim - 1)]
    split = np.pad(groups, missing).reshape(len(groups), words, fields.count, *weights.shape[1:])
    scales = np.array([1 << (i * fields.bits) for i in range(fields.count)], np.int32)
    packed: NDArray[np.int32] = np.tensordot(split, scales, axes=([2], [0])).astype(np.int32)
    return packed


def _greatest_bits(count: int, low: int, high: int) -> int:
    """The widest fields for which weights low .. high make int16, whatever their order; 0 if there are none."""

    def fits(bits: int) -> bool:
        unit = sum(1 << (i * bits) for i in range(count))
        return low * unit >= -(1 << 15) and high * unit < 1 << 15

    return next((bits for bits in range(15, 0, -1) if fits(bits)), 0)


def _greatest_part(weights: NDArray[np.int32], source: TensorType) -> int:
    """B: the most that the taps of a kernel row add to one filter's sum for one word of input channels."""
    filters, rows, columns, channels = weights.shape
    words = -(-channels // _CHANNELS_OF_WORD)
    padded = np.pad(weights.astype(np.int64), ((0, 0), (0, 0), (0, 0), (0, words * _CHANNELS_OF_WORD - channels)))
    taps = padded.reshape(filters, rows, columns, words, _CHANNELS_OF_WORD)
    ends = np.stack([taps * source.lo, taps * source.hi])
    greatest = ends.max(axis=0).clip(0).sum(axis=(2, 4))
    least = ends.min(axis=0).clip(max=0).sum(axis=(2, 4))
    return int(max(greatest.max(), -least.min()))
