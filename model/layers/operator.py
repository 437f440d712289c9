"""What every layer says of itself: what it reads, its rule of shape, its proof, its integers and its reals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from typing_extensions import Self

from edgemeta.model.fixedpoint import rounding_shift, saturate
from edgemeta.model.layers.types import REAL, Float32, Padding, Pair, Requantize, Shape, ShiftTable, Tensor, TensorType
from edgemeta.model.require import require, require_between

MAX_SIDE = 1 << 16
"""Greatest height, width, channel count, stride and factor."""


class Operator:
    """A layer of a network: one record, with its one rule of shape, its exact integers and its real numbers.

    name: of the layer and of its output tensor. output: the type of that tensor, REAL in a float network. `spec` says
    which operators a float and an integer network have; methods of the other kind of network are not implemented.
    """

    kind: ClassVar[str]
    """What model files call the operator."""
    optional: ClassVar[Mapping[str, Any]] = {}
    """Fields that are written only where they differ from this, as in a document."""

    name: str
    input: str
    output: TensorType

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the tensors that the layer reads."""
        return (self.input,)

    @property
    def limits(self) -> tuple[float | None, float | None] | None:
        """The real bounds of a layer that does nothing but keep its input within them; None of another layer."""
        return None

    @property
    def passed(self) -> tuple[str, ...]:
        """The sources whose channels it passes: by one rule for all of them, which any factor of a channel leaves."""
        return ()

    @property
    def tables_made(self) -> int:
        """How many tables of 256 entries a recipe makes whenever the layer is proved."""
        return 0

    @property
    def equivalent(self) -> Any:
        """A layer of another operator with the same integers, for who has no form of this one; or the layer itself."""
        return self

    def renamed(self, name: str, sources: Sequence[str]) -> Self:
        """The same layer under another name, with other names of its inputs."""
        (source,) = sources
        return cast("Self", replace(cast("Any", self), name=name, input=source))

    def shape(self, *inputs: Shape) -> Shape:
        """Shape (H, W, C) of the output for those of the inputs. Raises ModelError if the layer cannot run on them."""
        return inputs[0]

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """Raise ModelError unless every integer is in range, whatever the input; the shapes have been proved.

        sources: types of the inputs. is_output: whether the network gives this tensor.
        """
        raise NotImplementedError

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """The output [N, H, W, C] of inputs [N, H, W, C] of these types; exact, as the layer's docstring defines it."""
        raise NotImplementedError

    def reals(self, values: Sequence[Float32]) -> Float32:
        """The output, float32 [N, H, W, C], of inputs float32 [N, H, W, C], as a float network computes it."""
        raise NotImplementedError

    @property
    def steps(self) -> NDArray[np.float64]:
        """What one integer step of the output is worth, for each channel [C] or for all [1]."""
        return np.array([self.output.scale])

    def cost(self, source: Shape) -> tuple[int, int]:
        """Multiplications or additions for one image, and elements of a padded copy of the input, both for limits."""
        return 0, 0


class Joining(Operator):
    """A layer that reads several tensors."""

    inputs: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """As `Operator.sources`."""
        return self.inputs

    def renamed(self, name: str, sources: Sequence[str]) -> Self:
        """As `Operator.renamed`."""
        return cast("Self", replace(cast("Any", self), name=name, inputs=tuple(sources)))


class Summing(Operator):
    """A layer whose integers are a sum, scaled and limited: a ReLU after it is a part of it."""


class Real(Operator):
    """A layer that only float networks have."""

    output = REAL


class Homogeneous(Operator):
    """A layer whose inputs and output share one quantization."""

    @property
    def passed(self) -> tuple[str, ...]:
        """As `Operator.passed`."""
        return self.sources

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        for source in sources:
            is_equal = _quantization(source) == _quantization(self.output)
            require(is_equal, "inputs and output do not share one quantization")


class Moving(Homogeneous):
    """A layer that only moves elements: integers, reals and PyTorch tensors alike."""

    def move(self, *values: Any, fill: float) -> Any:
        """The output [N, H, W, C] of NumPy arrays or PyTorch tensors [N, H, W, C]; `fill` stands where nothing was."""
        raise NotImplementedError

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        moved: Tensor = self.move(*values, fill=self.output.zero_point)
        return moved

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        moved: Float32 = self.move(*values, fill=0.0)
        return moved


class Windowed(Operator):
    """A layer with a kernel that slides over the padded input."""

    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)

    @property
    def covered(self) -> Pair:
        """Rows and columns from the first to the last element under the kernel."""
        raise NotImplementedError

    @property
    def products(self) -> int:
        """Products or terms of one element of the output."""
        return math.prod(self.covered)

    def cost(self, source: Shape) -> tuple[int, int]:
        """As `Operator.cost`."""
        (height, width, channels), (top, left, bottom, right) = source, self.padding
        padded = (height + top + bottom) * (width + left + right) * channels
        return math.prod(self.output.shape) * self.products, padded

    def padded(self, x: Tensor, fill: float) -> Tensor:
        """X [N, H, W, C] with `fill` in its padding; without padding the same array."""
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return x
        images, height, width, channels = x.shape
        padded = np.full((images, top + height + bottom, left + width + right, channels), fill, x.dtype)
        padded[:, top : top + height, left : left + width] = x
        return padded

    def windows(self, x: Tensor, fill: float) -> Tensor:
        """View [N, H', W', KH, KW, C] of the elements under the kernel at each position, padded with `fill`."""
        windows = sliding_window_view(self.padded(x, fill), self.covered, axis=(1, 2))
        windows = windows[:, :: self.stride[0], :: self.stride[1], :, :: self.dilation[0], :: self.dilation[1]]
        return windows.transpose(0, 1, 2, 4, 5, 3)


def covered(kernel: Pair, dilation: Pair) -> Pair:
    """Rows and columns from the first to the last tap of a dilated kernel."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def slide(shape: Shape, kernel: Pair, stride: Pair, padding: Padding) -> Pair:
    """Positions of a kernel: (H + top + bottom - KH) // stride + 1 rows, columns alike.

    Padding is smaller than the kernel on every side, so that each position has at least one element of the input.
    """
    sizes = []
    for axis, name in enumerate(("rows", "columns")):
        before, after, side = padding[axis], padding[axis + 2], kernel[axis]
        require_between(side, 1, MAX_SIDE, f"the kernel's {name}")
        require_between(stride[axis], 1, MAX_SIDE, f"the stride's {name}")
        for amount in (before, after):
            require_between(amount, 0, side - 1, f"the padding's {name}")
        free = shape[axis] + before + after - side
        require(free >= 0, f"the kernel has {side} {name}, the padded input {free + side}")
        sizes.append(free // stride[axis] + 1)
    return sizes[0], sizes[1]


def centred(x: Tensor, source: TensorType) -> NDArray[np.int64]:
    """Integers x [...] less the zero point, in int64."""
    return x.astype(np.int64) - source.zero_point


def looked_up(table: Tensor, columns: NDArray[np.int64]) -> Tensor:
    """Entries of a table [C, 256] or [1, 256] at columns [N, H, W, C]."""
    row = np.arange(columns.shape[3]) if len(table) > 1 else 0
    entries: Tensor = table.ravel().take((256 * row + columns).astype(np.intp, copy=False))
    return entries


def requantized(accumulators: NDArray[np.int64], requantize: Requantize | None, output: TensorType) -> Tensor:
    """Accumulators [N, H, W, C] to the output type, per channel; without `requantize` they stay int32."""
    if requantize is None:
        return accumulators.astype(np.int32)
    if isinstance(requantize, ShiftTable):
        return looked_up(requantize.table, np.clip(rounding_shift(accumulators, requantize.shift), -128, 127) + 128)
    rounded = rounding_shift(accumulators * requantize.multiplier.astype(np.int64), requantize.shift)
    return saturate(rounded + output.zero_point, requantize.lo, requantize.hi, output.dtype)


def _quantization(kind: TensorType) -> tuple[int, bool, int, float]:
    return kind.bits, kind.signed, kind.zero_point, kind.scale
