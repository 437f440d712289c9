"""Three encodings of an integer weight tensor. Each decodes to the integers that inference is defined on.

The first axis of every tensor is the output channel. A decoded integer w represents the real weight `scale[o] * w`;
Qn weights have scale 2**-n, for the whole layer ([1]) or per channel ([O]).
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class FixedWeights:
    """Signed k-bit integers, k = `bits` = 1 .. 8: values int8 [O, ...] in -2**(k-1) .. 2**(k-1)-1; 1 bit is -1 or 0."""

    values: NDArray[np.int8]
    bits: int
    scale: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded tensor."""
        return self.values.shape

    def decode(self) -> NDArray[np.int32]:
        """The values as int32 [O, ...]."""
        return self.values.astype(np.int32)


@dataclass(frozen=True, eq=False)
class PowerOfTwoWeights:
    """0 or +-2**e at b = `bits` = 2 .. 5, as Yamamoto et al. and INQ: codes uint8 [O, ...].

    Bit b-1 of a code is the sign (1: negative), the bits below it hold m = 0 .. 2**(b-2): m = 0 is the weight 0 (with
    sign 0), otherwise the integer is +-2**(m-1). `scale` is 2**n2, the least magnitude that is not zero.
    """

    codes: NDArray[np.uint8]
    bits: int
    scale: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded tensor."""
        return self.codes.shape

    def decode(self) -> NDArray[np.int32]:
        """The integers, int32 [O, ...], at most 128 in magnitude."""
        magnitude_code = (self.codes & (2 ** (self.bits - 1) - 1)).astype(np.int32)
        magnitude = np.where(magnitude_code > 0, 1 << np.maximum(magnitude_code - 1, 0), 0)
        return np.where(self.codes >> (self.bits - 1), -magnitude, magnitude).astype(np.int32)


@dataclass(frozen=True, eq=False)
class BinaryWeights:
    """B binary bases with integer scales, as Kondo and Yamashita: w[o] = sum over b of factors[o, b] * basis[b, o].

    basis int8 [B, O, ...] of -1 and +1, B = 1 .. 8; factors int16 [O, B].
    """

    basis: NDArray[np.int8]
    factors: NDArray[np.int16]
    scale: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded tensor."""
        return self.basis.shape[1:]

    def decode(self) -> NDArray[np.int32]:
        """The integers, int32 [O, ...], at most B * 2**15 in magnitude."""
        decoded: NDArray[np.int32] = np.einsum(
            "bo...,ob->o...", self.basis.astype(np.int32), self.factors.astype(np.int32)
        )
        return decoded


Weights: TypeAlias = FixedWeights | PowerOfTwoWeights | BinaryWeights
