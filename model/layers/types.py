"""What the operators are made of: shapes, the type of a tensor, how accumulators become integers.

A tensor is one image in H, W, C order; batches put N in front. An integer q of a tensor represents the real number
`scale * (q - zero_point)`. Inference uses integers only; scales serve people and the interpretation of logits.

Notation in the formulas: x an input integer, zx its zero point, zy the output's zero point, `>>` an arithmetic shift,
round(v, s) = (v + 2**(s-1)) >> s for s > 0 and v for s = 0 (half up; `fixedpoint.rounding_shift`).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensor: TypeAlias = NDArray[Any]
Float32: TypeAlias = NDArray[np.float32]
Shape: TypeAlias = tuple[int, int, int]
Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[int, int, int, int]
"""Rows above, columns left, rows below, columns right."""
Coordinates: TypeAlias = Literal["half_pixel", "align_corners", "asymmetric"]
"""Which place of the input an element of an enlarged or reduced map comes from."""


@dataclass(frozen=True)
class TensorType:
    """Shape (H, W, C) and quantization of one tensor.

    `bits` is 1 to 8 (stored as int8 or uint8), or 32 for raw accumulators: signed, zero point 0, the model's output
    only; `REAL` has 0. A signed k-bit integer spans -2**(k-1) .. 2**(k-1)-1, an unsigned one 0 .. 2**k-1; the zero
    point lies inside. scale: above 0; of raw accumulators whose weights have a scale per channel the input's, and the
    scale of channel c is the product of both.
    """

    shape: Shape
    bits: int = 8
    signed: bool = True
    zero_point: int = 0
    scale: float = 1.0

    @property
    def lo(self) -> int:
        """Least integer of the type."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        """Greatest integer of the type."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def dtype(self) -> type[np.int8] | type[np.uint8] | type[np.int32]:
        """The NumPy type that stores it."""
        if self.bits == 32:
            return np.int32
        return np.int8 if self.signed else np.uint8


REAL = TensorType((0, 0, 0), bits=0)
"""What every layer of a float network gives: float32, whose shape its rule says."""


def real(height: int, width: int) -> TensorType:
    """REAL of a height and width that no rule says: a resize's."""
    return replace(REAL, shape=(height, width, 0))


@dataclass(frozen=True, eq=False)
class Multiplier:
    """Requantize by integer multiplier and shift: y = clamp(zy + round(acc * multiplier[c], shift[c]), lo, hi).

    multiplier int32 [C] or [1], 0 .. 2**31-1; shift uint8 [C] or [1], 0 .. 62. The product is taken in int64, where it
    cannot overflow. lo and hi lie within the output type and carry the activation.
    """

    multiplier: NDArray[np.int32]
    shift: NDArray[np.uint8]
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class ShiftTable:
    """Requantize by shift and table (Terakura et al.): y = table[c][t], t = clamp(round(acc, shift[c]), -128, 127).

    shift uint8 [C] or [1], 0 .. 31; table [C, 256] or [1, 256] of the output's dtype, entry t at column t + 128. The
    table implements batch norm and activation; its entries are output integers (they include the zero point).
    """

    shift: NDArray[np.uint8]
    table: NDArray[np.int8] | NDArray[np.uint8]


Requantize: TypeAlias = Multiplier | ShiftTable
