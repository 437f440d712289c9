"""Layers that reduce what lies under a kernel. A global pool is a pool whose kernel is the whole map."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from edgemeta.model.layers.bounds import prove_pool_accumulators, prove_requantize
from edgemeta.model.layers.operator import Homogeneous, Real, Summing, Windowed, centred, requantized, slide
from edgemeta.model.layers.types import REAL, Float32, Padding, Pair, Requantize, Shape, Tensor, TensorType


class Pool(Windowed):
    """A kernel without weights, which reduces each channel by itself."""

    kernel: Pair

    @property
    def covered(self) -> Pair:
        """Rows and columns of the kernel."""
        return self.kernel

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        return *slide(inputs[0], self.kernel, self.stride, self.padding), inputs[0][2]


@dataclass(frozen=True)
class MaxPool(Pool, Homogeneous):
    """y = the greatest x under the kernel; padding is ignored. The output has the input's quantization."""

    kind = "max_pool"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    kernel: Pair
    stride: Pair
    padding: Padding = (0, 0, 0, 0)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        greatest: Tensor = self.windows(values[0], sources[0].lo).max(axis=(3, 4))
        return greatest

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        greatest: Float32 = self.windows(values[0], -np.inf).max(axis=(3, 4))
        return greatest


class Mean(Summing):
    """A layer whose elements are means of elements of one channel."""

    def area(self, source: Shape) -> int:
        """Elements of one mean, for the shape of the input."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class AveragePool(Pool, Mean):
    """acc = sum of (x - zx) under the kernel, padding adding 0; `requantize` divides by the kernel's area."""

    kind = "average_pool"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    kernel: Pair
    stride: Pair
    requantize: Requantize | None = None
    padding: Padding = (0, 0, 0, 0)

    def area(self, source: Shape) -> int:
        """As `Mean.area`."""
        return math.prod(self.kernel)

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        prove_pool_accumulators(math.prod(self.kernel), sources[0])
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        sums = self.windows(centred(values[0], sources[0]), 0).sum(axis=(3, 4))
        return requantized(sums, self.requantize, self.output)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`: the mean over the whole kernel, padding counting as 0."""
        mean: Float32 = self.windows(values[0], 0.0).mean(axis=(3, 4), dtype=np.float32)
        return mean


@dataclass(frozen=True)
class GlobalAverage(Mean, Real):
    """The mean over rows and columns, output (1, 1, C): in integers an AveragePool of the whole map."""

    kind = "global_average"
    name: str
    input: str

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        return 1, 1, inputs[0][2]

    def area(self, source: Shape) -> int:
        """As `Mean.area`."""
        return source[0] * source[1]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        mean: Float32 = values[0].mean((1, 2), keepdims=True, dtype=np.float32)
        return mean
