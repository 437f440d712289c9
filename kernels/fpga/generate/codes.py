"""Weights as the codes that the engines read: {negative, not zero, shift}, one power of two each.

A power-of-two weight of b bits is one code of b bits. A k-bit fixed weight is a sum of signed powers of two, its
canonical signed-digit form: at most (k + 1) / 2 codes of up to 5 bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes uint8 [TERMS, O, ...], `bits` each: bit bits-1 negative, bit bits-2 not zero, the shift below.

    The sum over the first axis of `values()` is the decoded weight.
    """

    codes: NDArray[np.uint8]
    bits: int

    @property
    def terms(self) -> int:
        """Powers of two per weight."""
        return len(self.codes)

    def values(self) -> NDArray[np.int64]:
        """The integer of every code, int64 [TERMS, O, ...]."""
        shift = (self.codes & ((1 << (self.bits - 2)) - 1)).astype(np.int64)
        magnitude = np.where(self.codes >> (self.bits - 2) & 1, np.left_shift(np.int64(1), shift), 0)
        values: NDArray[np.int64] = np.where(self.codes >> (self.bits - 1), -magnitude, magnitude)
        return values

    def negatives(self) -> NDArray[np.int64]:
        """Number of negative codes of every output channel, int64 [O]: what one's complements fall short by."""
        counts: NDArray[np.int64] = np.moveaxis(self.codes >> (self.bits - 1), 1, 0).reshape(self.codes.shape[1], -1)
        sums: NDArray[np.int64] = counts.sum(axis=1, dtype=np.int64)
        return sums


def codes_of(weights: PowerOfTwoWeights | FixedWeights) -> Codes:
    """Codes of a layer's weights."""
    if isinstance(weights, PowerOfTwoWeights):
        return _power_of_two(weights)
    digits = _signed_digits(weights.decode().astype(np.int64))
    shift_bits = max(int(np.abs(digits).max(initial=1)).bit_length() - 1, 0).bit_length()
    magnitude = np.abs(digits)
    shift = np.where(magnitude > 0, np.log2(np.maximum(magnitude, 1)).astype(np.int64), 0)
    flags = (digits < 0) * 2 + (digits != 0)
    return Codes((flags << shift_bits | shift).astype(np.uint8), shift_bits + 2)


def _power_of_two(weights: PowerOfTwoWeights) -> Codes:
    bits = weights.bits
    magnitude = weights.codes & ((1 << (bits - 1)) - 1)
    negative = weights.codes >> (bits - 1)
    any_ = magnitude > 0
    shift = np.where(any_, magnitude - 1, 0)
    codes = negative << (bits - 1) | any_.astype(np.uint8) << (bits - 2) | shift
    return Codes(codes.astype(np.uint8)[np.newaxis], bits)


def _signed_digits(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Non-zero digits of the non-adjacent form, +-2**e or 0, int64 [TERMS, ...]; TERMS is the most of any weight.

    Reitwiesner: an odd rest takes the digit 2 - (rest mod 4), which makes the next digit 0.
    """
    digits = []
    rest = values.copy()
    power = 1
    while rest.any():
        digit = np.where(rest & 1, 2 - (rest & 3), 0)
        digits.append(digit * power)
        rest = (rest - digit) >> 1
        power *= 2
    if not digits:
        return np.zeros((1, *values.shape), np.int64)
    stacked = np.stack(digits)
    order = np.argsort(stacked == 0, axis=0, kind="stable")
    return np.take_along_axis(stacked, order, axis=0)[: max(1, int((stacked != 0).sum(axis=0).max()))]
