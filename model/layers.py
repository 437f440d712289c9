"""Records of the quantized graph; they define the exact integer result of every layer.

A tensor is one image in H, W, C order; batches put N in front. An integer q of a tensor represents the real number
`scale * (q - zero_point)`. Inference uses integers only; scales serve people and the interpretation of logits.

Notation in the formulas: x an input integer, zx its zero point, zy the output's zero point, `>>` an arithmetic shift,
round(v, s) = (v + 2**(s-1)) >> s for s > 0 and v for s = 0 (half up; `fixedpoint.rounding_shift`).

Padding is smaller than the (dilated) kernel on every side. A global pool is a pool whose kernel is the whole map. ReLU
is a clamp from below at the zero point; ReLU6 also clamps from above at the integer of 6.0. Sigmoid, swish and every
other function of one element is a Lookup. A transposed convolution is a Pad with spacing and a Conv.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.weights import Weights

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
    only. A signed k-bit integer spans -2**(k-1) .. 2**(k-1)-1, an unsigned one 0 .. 2**k-1; the zero point lies inside.
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


@dataclass(frozen=True, eq=False)
class Conv:
    """acc[o] = bias[o] + sum over taps and channels of w * (x - zx); a tap in the padding adds 0.

    weights [O, KH, KW, I / groups]; bias int32 [O] or None. Tap (u, v) reads the element u * dilation rows below and
    v * dilation columns right of the window's corner, so the kernel covers (KH - 1) * dilation + 1 rows; output
    H = (H + top + bottom - covered rows) // stride + 1, W alike. `requantize` None outputs the int32 accumulator (model
    output only); the output's scale is the input's if the weights have a scale per channel.
    """

    name: str
    input: str
    output: TensorType
    weights: Weights
    bias: NDArray[np.int32] | None = None
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    groups: int = 1
    requantize: Requantize | None = None
    dilation: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class Dense:
    """acc[o] = bias[o] + sum of w[o] * (x - zx) over the input flattened in H, W, C order; output shape (1, 1, O).

    weights [O, H * W * C]; otherwise as Conv.
    """

    name: str
    input: str
    output: TensorType
    weights: Weights
    bias: NDArray[np.int32] | None = None
    requantize: Requantize | None = None


@dataclass(frozen=True)
class Add:
    """y = clamp(zy + round(ma * (a - za) + mb * (b - zb), shift), lo, hi), all of it within int32.

    `multipliers` (ma, mb) are 0 .. 2**21 and `shift` 0 .. 29.
    """

    name: str
    inputs: tuple[str, str]
    output: TensorType
    multipliers: Pair
    shift: int
    lo: int
    hi: int


@dataclass(frozen=True)
class Clamp:
    """y = clamp(x, lo, hi); the output has the input's type. ReLU and ReLU6 where no other layer includes them."""

    name: str
    input: str
    output: TensorType
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class Rescale:
    """Elementwise requantization: acc = x - zx. Changes bits, zero point or scale, or applies a table."""

    name: str
    input: str
    output: TensorType
    requantize: Requantize


@dataclass(frozen=True)
class MaxPool:
    """y = the greatest x under the kernel; padding is ignored. The output has the input's quantization."""

    name: str
    input: str
    output: TensorType
    kernel: Pair
    stride: Pair
    padding: Padding = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class AveragePool:
    """acc = sum of (x - zx) under the kernel, padding adding 0; `requantize` divides by the kernel's area."""

    name: str
    input: str
    output: TensorType
    kernel: Pair
    stride: Pair
    requantize: Requantize
    padding: Padding = (0, 0, 0, 0)


@dataclass(frozen=True)
class Concat:
    """Concatenates the channels of the inputs; all tensors have the same quantization (a Rescale ensures it)."""

    name: str
    inputs: tuple[str, ...]
    output: TensorType


@dataclass(frozen=True)
class Upsample:
    """Nearest neighbour: y[i, j] = x[i // factor_y, j // factor_x]. The output has the input's quantization."""

    name: str
    input: str
    output: TensorType
    factor: Pair


@dataclass(frozen=True, eq=False)
class Lookup:
    """y = table[c][x - least], `least` the least integer of the input's dtype: -128 if signed, 0 if not.

    table [C, 256] or [1, 256] of the output's dtype. Any function of one element, such as sigmoid and swish.
    """

    name: str
    input: str
    output: TensorType
    table: NDArray[np.int8] | NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Product:
    """Elementwise product: acc = (a - za) * (b - zb), requantized.

    b has the shape of a, or (1, 1, C): one factor per channel, as in squeeze-and-excite.
    """

    name: str
    inputs: tuple[str, str]
    output: TensorType
    requantize: Requantize


@dataclass(frozen=True)
class Pad:
    """y[top + i * spacing_y, left + j * spacing_x] = x[i, j], and the zero point everywhere else.

    Output H = top + (H - 1) * spacing_y + 1 + bottom, W alike. The output has the input's quantization.
    """

    name: str
    input: str
    output: TensorType
    padding: Padding
    spacing: Pair = (1, 1)


@dataclass(frozen=True)
class Slice:
    """y[i, j, k] = x[start + (i, j, k) * step] below `stop`, in H, W, C. The output has the input's quantization."""

    name: str
    input: str
    output: TensorType
    start: Shape
    stop: Shape
    step: Shape = (1, 1, 1)


@dataclass(frozen=True)
class ChannelShuffle:
    """y[c] = x[(c % groups) * (C / groups) + c // groups]. The output has the input's quantization."""

    name: str
    input: str
    output: TensorType
    groups: int


@dataclass(frozen=True)
class ResizeBilinear:
    """y = round(sum of wy * wx * x over two rows and two columns, 22), weights in units of 2**-11.

    Output row i is at p rows of the input, clamped to 0 .. H - 1, with p exactly ((2 i + 1) H - H') / (2 H') for
    "half_pixel", i (H - 1) / (H' - 1) for "align_corners" (0 if H' is 1), i H / H' for "asymmetric". The lower row is
    floor(p), the upper one the next, at most H - 1, and weighs floor((p - floor(p)) * 2**11 + 1/2); the lower one has
    the rest of 2**11. Columns alike. The output has the input's quantization.
    """

    name: str
    input: str
    output: TensorType
    coordinates: Coordinates


Layer: TypeAlias = (
    Conv
    | Dense
    | Add
    | Clamp
    | Rescale
    | MaxPool
    | AveragePool
    | Concat
    | Upsample
    | Lookup
    | Product
    | Pad
    | Slice
    | ChannelShuffle
    | ResizeBilinear
)


def inputs_of(layer: Layer) -> tuple[str, ...]:
    """Names of the tensors that a layer reads."""
    return layer.inputs if isinstance(layer, Add | Concat | Product) else (layer.input,)
