"""Layers with weights: sums of products.

The sums are computed as float64 matrix products, which is exact: `prove` has shown that every accumulator, and every
partial sum without the bias, is an integer far below 2**53 in magnitude.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Generic, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from edgemeta.model.layers.bounds import prove_accumulators, prove_bias, prove_requantize, prove_weights
from edgemeta.model.layers.convolve import convolve
from edgemeta.model.layers.operator import MAX_SIDE, Summing, Windowed, centred, covered, requantized, slide
from edgemeta.model.layers.types import REAL, Float32, Padding, Pair, Requantize, Shape, Tensor, TensorType
from edgemeta.model.require import require, require_array, require_between
from edgemeta.model.weights import FixedWeights, Weights

BLOCK_ELEMENTS = 1 << 18
"""Greatest number of float64 elements that one matrix product reads: about the cache of one core."""


W = TypeVar("W", bound=Weights | Float32, default=Weights)
"""What the weights of a layer are: integers in an integer network, float32 in a float network."""


class Weighted(Summing, Generic[W]):
    """A layer with weights [O, ...] and a bias [O] or None, whose int32 accumulators are requantized or given.

    In a float network both are float32, and the sums are given.
    """

    weights: W
    bias: NDArray[Any] | None
    requantize: Requantize | None
    groups: int = 1

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """Accumulators, and either a requantization or the raw int32 output of the network."""
        (source,) = sources
        prove_accumulators(self.coded, self.bias, source)
        if self.requantize is not None:
            prove_requantize(self.requantize, self.output)
            return
        require(self.output.bits == 32, f"output has {self.output.bits} bits, expected 32 without requantization")
        require(is_output, "output is not requantized, which only the network's output may be")
        if self.coded.scale.shape != (1,):
            require(
                self.output.scale == source.scale,
                f"raw accumulators of weights with a scale per channel have scale {self.output.scale}, expected the "
                f"input's, {source.scale}",
            )

    @property
    def steps(self) -> NDArray[np.float64]:
        """As `Operator.steps`; of raw accumulators of weights with a scale per channel, scale * weights.scale[c]."""
        is_each = self.requantize is None and self.coded.scale.shape != (1,)
        return self.output.scale * self.coded.scale if is_each else np.array([self.output.scale])

    @property
    def coded(self) -> Weights:
        """The weights of an integer network."""
        return cast("Weights", self.weights)

    @property
    def real_weights(self) -> Float32:
        """The weights [O, ...] of a float network."""
        return cast("Float32", self.weights)

    def quantized(
        self, output: TensorType, weights: Weights, bias: NDArray[np.int32] | None, requantize: Requantize | None
    ) -> Any:
        """The layer of an integer network with these numbers; bias: [O]."""
        numbers = {"output": output, "weights": weights, "bias": bias, "requantize": requantize}
        return replace(cast("Any", self), **numbers)

    def _prove_arrays(self) -> None:
        """Dtypes, shapes and values of weights and bias."""
        prove_weights(self.weights)
        prove_bias(self.bias, self.weights.shape[0], np.float32 if isinstance(self.weights, np.ndarray) else np.int32)

    def _biased(self, sums: Float32) -> Float32:
        """The sums, which are the caller's own, with the bias added in place."""
        if self.bias is not None:
            wide = sums.reshape(-1, sums.size // len(sums) // (sums.shape[1] if sums.ndim == 4 else 1))
            wide += np.tile(self.bias, wide.shape[1] // len(self.bias))  # of a row at once
        return sums

    def _requantized(self, sums: NDArray[np.int64]) -> Tensor:
        return requantized(sums if self.bias is None else sums + self.bias, self.requantize, self.output)


@dataclass(frozen=True, eq=False)
class Conv(Weighted[W], Windowed):
    """acc[o] = bias[o] + sum over taps and channels of w * (x - zx); a tap in the padding adds 0.

    weights [O, KH, KW, I / groups], groups a divisor of I and O; bias int32 [O] or None. Tap (u, v) reads the element u
    * dilation rows below and v * dilation columns right of the window's corner, so the kernel covers (KH - 1) *
    dilation + 1 rows; output H = (H + top + bottom - covered rows) // stride + 1, W alike. `requantize` None outputs
    the int32 accumulator (model output only); the output's scale is the input's if the weights have a scale per
    channel.
    """

    kind = "conv"
    optional = {"dilation": [1, 1]}  # noqa: RUF012 (a ClassVar by the base)

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    weights: W
    bias: NDArray[Any] | None = None
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    groups: int = 1
    requantize: Requantize | None = None
    dilation: Pair = (1, 1)

    @property
    def covered(self) -> Pair:
        """Rows and columns from the first to the last tap of the kernel."""
        height, width = self.weights.shape[1:3]
        return covered((height, width), self.dilation)

    @property
    def products(self) -> int:
        """Products of one element of the output."""
        return math.prod(self.weights.shape[1:])

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        self._prove_arrays()
        shape = self.weights.shape
        require(len(shape) == 4, f"weights have shape {list(shape)}, expected [O, KH, KW, I]")
        channels, depth = shape[0], shape[3]
        require_between(self.groups, 1, channels, "groups")
        require(
            inputs[0][2] == depth * self.groups and channels % self.groups == 0,
            f"weights have shape {list(shape)} in {self.groups} groups, which does not fit {inputs[0][2]} input "
            "channels",
        )
        for axis, name in enumerate(("rows", "columns")):
            require_between(self.dilation[axis], 1, MAX_SIDE, f"the dilation's {name}")
        return *slide(inputs[0], self.covered, self.stride, self.padding), channels

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`, as one matrix product per block of output rows."""
        weights, groups = self.coded.decode(), self.groups
        outputs, kernel_height, kernel_width, depth = weights.shape
        filters, taps = outputs // groups, kernel_height * kernel_width * depth
        matrices = weights.reshape(groups, filters, taps).transpose(0, 2, 1)
        windows = self.windows(centred(values[0], sources[0]).astype(np.float64), 0)
        images, height, width = windows.shape[:3]
        grouped = windows.reshape(*windows.shape[:5], groups, depth).transpose(5, 0, 1, 2, 3, 4, 6)
        sums = np.empty((images, height, width, outputs), np.int64)
        rows = max(1, BLOCK_ELEMENTS // (images * width * taps * groups))
        for top in range(0, height, rows):
            columns = grouped[:, :, top : top + rows].reshape(groups, -1, taps)
            block = _exact_product(columns, matrices).reshape(groups, images, -1, width, filters)
            sums[:, top : top + rows] = block.transpose(1, 2, 3, 0, 4).reshape(images, -1, width, outputs)
        return self._requantized(sums)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        x = self.padded(values[0], 0.0)
        return self._biased(convolve(x, self.real_weights, self.stride, self.dilation, self.groups))


@dataclass(frozen=True, eq=False)
class Dense(Weighted[W]):
    """acc[o] = bias[o] + sum of w[o] * (x - zx) over the input flattened in H, W, C order; output shape (1, 1, O).

    weights [O, H * W * C]; otherwise as Conv.
    """

    kind = "dense"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    weights: W
    bias: NDArray[Any] | None = None
    requantize: Requantize | None = None

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        self._prove_arrays()
        shape, size = self.weights.shape, math.prod(inputs[0])
        require(len(shape) == 2, f"weights have shape {list(shape)}, expected [O, {size}]")
        require(shape[1] == size, f"weights take {shape[1]} inputs, found {size}")
        return 1, 1, shape[0]

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        columns = centred(values[0], sources[0]).reshape(len(values[0]), 1, 1, -1)
        return self._requantized(_exact_product(columns, self.coded.decode().T))

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        sums: Float32 = values[0].reshape(len(values[0]), -1) @ self.real_weights.T
        return self._biased(sums).reshape(len(sums), 1, 1, -1)


@dataclass(frozen=True, eq=False)
class Affine(Summing):
    """acc[c] = bias[c] + factors[c] * (x - zx), requantized: a factor and a summand for each channel.

    factors int8 [C], bias int32 [C]. scale float64 [C] or [1]: the real factor is `scale[c] * factors[c]`.
    """

    kind = "affine"

    name: str
    input: str
    output: TensorType
    _: KW_ONLY
    factors: NDArray[np.int8]
    scale: NDArray[np.float64]
    bias: NDArray[np.int32]
    requantize: Requantize

    @property
    def equivalent(self) -> Conv:
        """As `Operator.equivalent`: a depthwise convolution of one tap."""
        weights: Weights = FixedWeights(self.factors.reshape(-1, 1, 1, 1), 8, self.scale)
        conv = Conv(self.name, self.input, self.output, weights=weights, groups=len(self.factors))
        return replace(conv, bias=self.bias, requantize=self.requantize)

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        require_array(self.factors, np.int8, ((inputs[0][2],),), "factors")
        return self.equivalent.shape(*inputs)

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        self.equivalent.prove(sources, is_output=is_output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        accumulators = centred(values[0], sources[0]) * self.factors + self.bias
        return requantized(accumulators, self.requantize, self.output)


def _exact_product(columns: NDArray[Any], weights: NDArray[np.int32]) -> NDArray[np.int64]:
    """Integer matrix product [..., M, K] @ [..., K, O] in int64, computed in float64 (see the module's docstring)."""
    product = columns.astype(np.float64, copy=False) @ weights.astype(np.float64)
    return product.astype(np.int64)
