"""Layers that reduce what lies under a kernel. A global pool is a pool whose kernel is the whole map."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

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

    @property
    def passed(self) -> tuple[str, ...]:
        """As `Operator.passed`."""
        return self.sources

    def area(self, source: Shape) -> int:
        """Elements of one mean, for the shape of the input."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class AveragePool(Pool, Mean):
    """acc = sum of (x - zx) under the kernel, padding adding 0; `requantize` divides by the kernel's area.

    inside: the mean is that of the elements of the input alone. Where n of them are under the kernel on an axis, with L
    the least common multiple of all its n, acc is multiplied by L / n; the area is then the product of both L.
    """

    kind = "average_pool"
    optional = {"inside": False}  # noqa: RUF012 (a ClassVar by the base)

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    kernel: Pair
    stride: Pair
    requantize: Requantize | None = None
    padding: Padding = (0, 0, 0, 0)
    inside: bool = False

    def area(self, source: Shape) -> int:
        """As `Mean.area`."""
        return math.prod(self.shares(source))

    def shares(self, source: Shape) -> Pair:
        """What an average is divided by on each axis: the L of `inside`, or the kernel's sides."""
        if not self.inside:
            return self.kernel
        rows, columns = (math.lcm(*counts.tolist()) for counts in self._counts(source))
        return rows, columns

    def factors(self, source: Shape) -> NDArray[np.int64]:
        """By what each sum is multiplied: [H', W', 1]."""
        if not self.inside:
            return np.ones((1, 1, 1), np.int64)
        rows, columns = (share // each for share, each in zip(self.shares(source), self._counts(source), strict=True))
        return rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]

    def _counts(self, source: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows [H'] and columns [W'] of the input under the kernel at each position."""
        counts = []
        for axis, positions in enumerate(self.shape(source)[:2]):
            first = np.arange(positions) * self.stride[axis] - self.padding[axis]
            inside = np.minimum(first + self.kernel[axis], source[axis]) - np.maximum(first, 0)
            counts.append(inside)
        return counts[0], counts[1]

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        prove_pool_accumulators(self.area(sources[0].shape), sources[0])
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        sums = self.windows(centred(values[0], sources[0]), 0).sum(axis=(3, 4)) * self.factors(sources[0].shape)
        return requantized(sums, self.requantize, self.output)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`: the mean over the whole kernel, padding counting as 0, or over what is inside."""
        mean: Float32 = self.windows(values[0], 0.0).mean(axis=(3, 4), dtype=np.float32)
        height, width, channels = values[0].shape[1:]
        return mean * self.weights((height, width, channels)) if self.inside else mean

    def weights(self, source: Shape) -> Float32:
        """What makes means over the kernel those of `inside`: [H', W', 1]."""
        return (self.factors(source) * (math.prod(self.kernel) / self.area(source))).astype(np.float32)


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
