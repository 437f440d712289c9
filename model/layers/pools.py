"""Layers that reduce what lies under a kernel. A global pool is a pool whose kernel is the whole map."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgemeta.model.layers.bounds import prove_pool_accumulators, prove_requantize
from edgemeta.model.layers.operator import Homogeneous, Windowed, centred, requantized, slide
from edgemeta.model.layers.types import Padding, Pair, Requantize, Shape, Tensor, TensorType


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
    output: TensorType
    kernel: Pair
    stride: Pair
    padding: Padding = (0, 0, 0, 0)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        greatest: Tensor = self.windows(values[0], sources[0].lo).max(axis=(3, 4))
        return greatest


@dataclass(frozen=True, eq=False)
class AveragePool(Pool):
    """acc = sum of (x - zx) under the kernel, padding adding 0; `requantize` divides by the kernel's area."""

    kind = "average_pool"

    name: str
    input: str
    output: TensorType
    kernel: Pair
    stride: Pair
    requantize: Requantize
    padding: Padding = (0, 0, 0, 0)

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        prove_pool_accumulators(math.prod(self.kernel), sources[0])
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        sums = self.windows(centred(values[0], sources[0]), 0).sum(axis=(3, 4))
        return requantized(sums, self.requantize, self.output)
