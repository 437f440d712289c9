"""Layers of attention: products of two tensors over the positions of a map, and softmax.

Positions of a map of H rows and W columns are numbered row by row; `heads` divide the channels into equal groups.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import INT32_MAX, saturate
from edgemeta.model.layers.bounds import prove_requantize
from edgemeta.model.layers.operator import MAX_SIDE, Joining, Operator, centred, requantized
from edgemeta.model.layers.types import REAL, Float32, Requantize, Shape, Tensor, TensorType
from edgemeta.model.require import require, require_array, require_between, require_values

EXPONENTIAL_BITS, MULTIPLIER_BITS = 20, 8
"""Fraction bits of the entries of a softmax's table, and of its multiplier."""


@dataclass(frozen=True, eq=False)
class MatMul(Joining):
    """Products of two maps a and b over channels or positions, for each head: acc = sum of (a - za) * (b - zb).

    transposed: acc[p, h * Q + q] = sum over k of a[p, h * K + k] * b[q, h * K + k], the scores of attention; a and b
    have heads * K channels, b has Q positions. Otherwise acc[p, h * D + d] = sum over q of a[p, h * Q + q] *
    b[q, h * D + d], b having Q positions and heads * D channels. The result has the positions p of a. factor: of the
    real result; in integers it is a part of `requantize`, and 1.
    """

    kind = "matmul"
    optional = {"factor": 1.0}  # noqa: RUF012 (a ClassVar by the base)

    name: str
    inputs: tuple[str, str]
    output: TensorType = REAL
    _: KW_ONLY
    heads: int
    transposed: bool
    requantize: Requantize | None = None
    factor: float = 1.0

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        (height, width, channels), other = inputs
        positions = other[0] * other[1]
        require_between(self.heads, 1, MAX_SIDE, "heads")
        found = f"{list(inputs[0])} and {list(other)} in {self.heads} heads"
        for each in (channels, other[2]):
            require(each % self.heads == 0, f"inputs have shapes {found}, expected as many channels for each head")
        require(bool(np.isfinite(self.factor)) and self.factor > 0, "factor must be finite and above 0")
        if self.transposed:
            require(channels == other[2], f"inputs have shapes {found}, expected equal channels")
            return height, width, self.heads * positions
        require(
            channels == self.heads * positions,
            f"inputs have shapes {found}, expected {self.heads * positions} channels of the first",
        )
        return height, width, other[2]

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        require(self.factor == 1, f"factor is {self.factor}, expected 1 in an integer network")
        terms = sources[0].shape[2] // self.heads
        reach = terms * math.prod(max(kind.hi - kind.zero_point, kind.zero_point - kind.lo) for kind in sources)
        require(reach <= INT32_MAX, f"the sum of {terms} products may reach {reach}, beyond int32")
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`; float64 holds the sums exactly."""
        a, b = (centred(value, source).astype(np.float64) for value, source in zip(values, sources, strict=True))
        return requantized(self.products(a, b).astype(np.int64), self.requantize, self.output)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        sums: Float32 = self.products(*values)
        return sums * np.float32(self.factor)

    def products(self, a: Any, b: Any) -> Any:
        """The sums [N, H, W, C] of a and b [N, H, W, C], NumPy arrays or PyTorch tensors, without `factor`."""
        images, height, width, _ = a.shape
        left = a.reshape(images, height * width, self.heads, -1).swapaxes(1, 2)  # [N, heads, P, K]
        right = b.reshape(images, b.shape[1] * b.shape[2], self.heads, -1).swapaxes(1, 2)
        sums = left @ (right.swapaxes(2, 3) if self.transposed else right)
        return sums.swapaxes(1, 2).reshape(images, height, width, -1)

    def cost(self, source: Shape) -> tuple[int, int]:
        """As `Operator.cost`."""
        return math.prod(self.output.shape) * (source[2] // self.heads), 0


@dataclass(frozen=True, eq=False)
class Softmax(Operator):
    """Softmax over each of `groups` equal groups of channels, at every position.

    With e[c] = exponentials[m - x[c]], m the greatest x of the group, and s the sum of e over it,
    y = clamp(zy + round(e * multiplier / (2**8 * s)), lo, hi), half up, lo and hi the ends of the output's type.
    exponentials int32 [256], 0 .. 2**20, the first one above 0: exp(-scale * t) of the input's scale in units of
    2**-20. multiplier: 1 / output.scale in units of 2**-8, 0 .. 2**31 - 1.
    """

    kind = "softmax"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    groups: int = 1
    exponentials: NDArray[np.int32] | None = None
    multiplier: int = 0

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        channels = inputs[0][2]
        require_between(self.groups, 1, channels, "groups")
        require(channels % self.groups == 0, f"{channels} channels are no multiple of {self.groups} groups")
        return inputs[0]

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`: twice e * multiplier is below 2**53, and the sum of 2**16 entries 2**37."""
        require(self.output.bits <= 8, f"output has {self.output.bits} bits, expected 1 .. 8")
        require(self.exponentials is not None, "exponentials are missing")
        assert self.exponentials is not None
        require_array(self.exponentials, np.int32, ((256,),), "exponentials")
        require_values(self.exponentials, 0, 1 << EXPONENTIAL_BITS, "exponentials")
        require(int(self.exponentials[0]) > 0, "the first one of the exponentials is 0, expected more")
        require_between(self.multiplier, 0, INT32_MAX, "multiplier")

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        assert self.exponentials is not None
        x = self._grouped(values[0].astype(np.int64))
        powers = self.exponentials.astype(np.int64)[x.max(4, keepdims=True) - x]
        sums = powers.sum(4, keepdims=True) << MULTIPLIER_BITS
        y = (2 * self.multiplier * powers + sums) // (2 * sums) + self.output.zero_point
        return saturate(y.reshape(values[0].shape), self.output.lo, self.output.hi, self.output.dtype)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        x = self._grouped(values[0])
        powers = np.exp(x - x.max(4, keepdims=True))
        result: Float32 = (powers / powers.sum(4, keepdims=True)).reshape(values[0].shape)
        return result

    def _grouped(self, x: Tensor) -> Tensor:
        """[N, H, W, groups, channels of a group]."""
        return x.reshape(*x.shape[:3], self.groups, -1)
