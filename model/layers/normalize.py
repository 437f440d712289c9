"""Normalization by the mean and the deviation of the data itself, for each position or for a whole map."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import INT32_MAX, rounding_shift
from edgemeta.model.layers.bounds import prove_bias, prove_finite, prove_requantize
from edgemeta.model.layers.operator import Operator, Real, requantized
from edgemeta.model.layers.types import REAL, Float32, Requantize, Shape, Tensor, TensorType
from edgemeta.model.require import require, require_array, require_between

NORMAL_BITS = 14
"""Fraction bits of a normalized element."""
MOST_ELEMENTS = 1 << 20
"""Greatest number of elements that are normalized together."""
MOST_EPSILON = 1 << 56


@dataclass(frozen=True, eq=False)
class LayerNorm(Real):
    """y[c] = gamma[c] * (x[c] - mean) / sqrt(variance + eps) + beta[c]; gamma, beta [C].

    Mean and variance are those of all channels of a position, or with `whole` of the whole map.
    """

    kind = "layer_norm"
    optional = {"whole": False}  # noqa: RUF012 (a ClassVar by the base)

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    gamma: Float32
    beta: Float32
    eps: float = 1e-5
    whole: bool = False

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        for what in ("gamma", "beta"):
            require_array(getattr(self, what), np.float32, ((inputs[0][2],),), what)
            prove_finite(getattr(self, what), what)
        require(bool(np.isfinite(self.eps)) and self.eps > 0, f"eps is {self.eps}, expected a finite number above 0")
        return inputs[0]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        x = values[0]
        axes = _axes(self.whole)
        away = x - x.mean(axes, keepdims=True, dtype=np.float32)
        variance = np.square(away).mean(axes, keepdims=True, dtype=np.float32)
        normed: Float32 = away / np.sqrt(variance + np.float32(self.eps)) * self.gamma + self.beta
        return normed


@dataclass(frozen=True, eq=False)
class Normalize(Operator):
    """A LayerNorm in integers: acc[c] = bias[c] + factors[c] * n[c], requantized.

    Of the N elements x of a position, or with `whole` of the map: S = sum of x, u = N x - S, and
    W = N * (sum of x * x) - S * S + epsilon. With h = floor(log2(W) / 2), w = floor(W / 2**(2 h - 30)) lies in
    2**30 .. 2**32 - 1, r = floor(sqrt(floor(2**62 / w))) and n = round(u * r, h + 2): u / sqrt(W) in units of 2**-14.
    epsilon: N**2 times that of the squares of x, 1 .. 2**56. factors int8 [C], bias int32 [C]; scale float64 [C] or
    [1]: the real factor is `scale[c] * factors[c]`.
    """

    kind = "normalize"
    optional = {"whole": False}  # noqa: RUF012 (a ClassVar by the base)

    name: str
    input: str
    output: TensorType
    _: KW_ONLY
    epsilon: int
    factors: NDArray[np.int8]
    scale: NDArray[np.float64]
    bias: NDArray[np.int32]
    requantize: Requantize
    whole: bool = False

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        channels = inputs[0][2]
        require_array(self.factors, np.int8, ((channels,),), "factors")
        require_array(self.scale, np.float64, ((1,), (channels,)), "scale")
        usable = np.isfinite(self.scale).all() and (self.scale > 0).all()
        require(bool(usable), "scale holds a value that is not finite and above 0")
        prove_bias(self.bias, channels, np.int32)
        return inputs[0]

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """|u| <= sqrt(N - 1) * sqrt(W), so |n| is at most (isqrt(N) + 1) * 2**14 with all rounding."""
        count = math.prod(sources[0].shape) if self.whole else sources[0].shape[2]
        require_between(count, 1, MOST_ELEMENTS, "the number of elements that are normalized together")
        require_between(self.epsilon, 1, MOST_EPSILON, "epsilon")
        greatest = (math.isqrt(count) + 1) << NORMAL_BITS
        reach = int((np.abs(self.bias.astype(np.int64)) + np.abs(self.factors.astype(np.int64)) * greatest).max())
        require(reach <= INT32_MAX, f"an accumulator may reach {reach}, beyond int32")
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`; the roots are of numbers below 2**52, which float64 has exactly."""
        x, axes = values[0].astype(np.int64), _axes(self.whole)
        count = math.prod(x.shape[axis] for axis in axes)
        total = x.sum(axes, keepdims=True)
        squares = count * np.square(x).sum(axes, keepdims=True) - np.square(total) + self.epsilon
        half = _floor_log2(squares) // 2
        scaled = np.where(half >= 15, squares >> np.maximum(2 * half - 30, 0), squares << np.maximum(30 - 2 * half, 0))
        root = np.floor(np.sqrt(((1 << 62) // scaled).astype(np.float64))).astype(np.int64)
        normal = rounding_shift((count * x - total) * root, half + 2)
        return requantized(normal * self.factors + self.bias, self.requantize, self.output)


def _axes(whole: bool) -> tuple[int, ...]:
    return (1, 2, 3) if whole else (3,)


def _floor_log2(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of numbers [...] from 1 to below 2**62: the exponent of each upper half of bits, which float64 has exactly."""
    upper = values >> 31
    exponent = np.frexp(np.where(upper > 0, upper, values).astype(np.float64))[1].astype(np.int64) - 1
    return np.where(upper > 0, exponent + 31, exponent)
