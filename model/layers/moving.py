"""Layers that only move elements. Each has one body for integers, reals and PyTorch: `Moving.move`."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers.bounds import prove_finite
from edgemeta.model.layers.operator import MAX_SIDE, Joining, Moving, Operator
from edgemeta.model.layers.types import REAL, Float32, Padding, Pair, Shape, Tensor, TensorType
from edgemeta.model.require import require, require_array, require_between, require_values


@dataclass(frozen=True)
class Concat(Joining, Moving):
    """The channels of 1 or more inputs of one height and width, in order.

    All tensors have the same quantization (a Rescale ensures it).
    """

    kind = "concat"

    name: str
    inputs: tuple[str, ...]
    output: TensorType = REAL

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        first = inputs[0]
        for shape in inputs:
            require(shape[:2] == first[:2], f"inputs have sizes {list(first[:2])} and {list(shape[:2])}")
        return first[0], first[1], sum(shape[2] for shape in inputs)

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        joined = _filled(values[0], (*values[0].shape[:3], sum(value.shape[3] for value in values)), fill)
        end = 0
        for value in values:
            joined[..., end : end + value.shape[3]] = value
            end += value.shape[3]
        return joined


@dataclass(frozen=True)
class Upsample(Moving):
    """Nearest neighbour: y[i, j] = x[i // factor_y, j // factor_x]. The output has the input's quantization."""

    kind = "upsample"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    factor: Pair

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        for factor in self.factor:
            require_between(factor, 1, MAX_SIDE, "factor")
        return inputs[0][0] * self.factor[0], inputs[0][1] * self.factor[1], inputs[0][2]

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        rows, columns = (
            np.arange(size * factor) // factor for size, factor in zip(values[0].shape[1:], self.factor, strict=False)
        )
        return values[0][:, rows][:, :, columns]


@dataclass(frozen=True)
class Pad(Moving):
    """y[top + i * spacing_y, left + j * spacing_x] = x[i, j], and the zero point, or 0.0, everywhere else.

    Padding is 0 .. 65,536. Output H = top + (H - 1) * spacing_y + 1 + bottom, W alike. The output has the input's
    quantization.
    """

    kind = "pad"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    padding: Padding
    spacing: Pair = (1, 1)

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        for axis, name in enumerate(("rows", "columns")):
            require_between(self.spacing[axis], 1, MAX_SIDE, f"the spacing's {name}")
            for amount in (self.padding[axis], self.padding[axis + 2]):
                require_between(amount, 0, MAX_SIDE, f"the padding's {name}")
        rows, columns = self._inside(inputs[0])
        top, left, bottom, right = self.padding
        return top + rows + bottom, left + columns + right, inputs[0][2]

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        images, *shape = values[0].shape
        padded = _filled(values[0], (images, *self.shape((shape[0], shape[1], shape[2]))), fill)
        (rows, columns), (top, left, _, _) = self._inside((shape[0], shape[1], shape[2])), self.padding
        inside = padded[:, top : top + rows, left : left + columns]
        inside[:, :: self.spacing[0], :: self.spacing[1]] = values[0]
        return padded

    def _inside(self, shape: Shape) -> Pair:
        """Rows and columns from the first to the last element of the input."""
        return (shape[0] - 1) * self.spacing[0] + 1, (shape[1] - 1) * self.spacing[1] + 1


@dataclass(frozen=True)
class Slice(Moving):
    """y[i, j, k] = x[start + (i, j, k) * step] below `stop`, in H, W, C; 0 <= start < stop <= the input's side.

    The output has the input's quantization.
    """

    kind = "slice"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    start: Shape
    stop: Shape
    step: Shape = (1, 1, 1)

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        sides = []
        for axis, name in enumerate(("rows", "columns", "channels")):
            start, stop, step = self.start[axis], self.stop[axis], self.step[axis]
            require_between(stop, 1, inputs[0][axis], f"the stop of the {name}")
            require_between(start, 0, stop - 1, f"the start of the {name}")
            require_between(step, 1, MAX_SIDE, f"the step of the {name}")
            sides.append(-(-(stop - start) // step))
        return sides[0], sides[1], sides[2]

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        return values[0][(slice(None), *map(slice, self.start, self.stop, self.step))]


@dataclass(frozen=True)
class ChannelShuffle(Moving):
    """y[c] = x[(c % groups) * (C / groups) + c // groups], groups a divisor of C.

    The output has the input's quantization.
    """

    kind = "channel_shuffle"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    groups: int

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        channels = inputs[0][2]
        require_between(self.groups, 1, channels, "groups")
        require(channels % self.groups == 0, f"{channels} channels are no multiple of {self.groups} groups")
        return inputs[0]

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        return values[0][..., np.arange(values[0].shape[3]).reshape(self.groups, -1).T.ravel()]


@dataclass(frozen=True)
class DepthToSpace(Moving):
    """y[i * block + u, j * block + v, c] = x[i, j, (u * block + v) * (C / block**2) + c], block**2 a divisor of C."""

    kind = "depth_to_space"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    block: int

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        height, width, channels = inputs[0]
        require_between(self.block, 1, MAX_SIDE, "block")
        area = self.block**2
        require(channels % area == 0, f"{channels} channels are no multiple of the {area} places of a block")
        return height * self.block, width * self.block, channels // area

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        images, rows, columns, channels = values[0].shape
        apart = values[0].reshape(images, rows, columns, self.block, self.block, channels // self.block**2)
        return apart.swapaxes(2, 3).reshape(images, rows * self.block, columns * self.block, -1)


@dataclass(frozen=True)
class Rearrange(Moving):
    """The input with its sides split into `sides`, these in another `order`, and joined to rows, columns and channels.

    Rows, columns and channels of the input are each the product of some adjacent sides. Of the sides in their new
    order the first `rows` make the rows of the output, the next `columns` its columns, the others its channels: tokens,
    heads, windows and their way back. The output has the input's quantization.
    """

    kind = "rearrange"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    sides: tuple[int, ...]
    order: tuple[int, ...]
    rows: int
    columns: int

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        axes = len(self.sides)
        for side in self.sides:
            require_between(side, 1, MAX_SIDE, "a side")
        products = {math.prod(self.sides[:count]) for count in range(axes + 1)}
        height, width, channels = inputs[0]
        is_split = {height, height * width} <= products and math.prod(self.sides) == height * width * channels
        require(is_split, f"sides {list(self.sides)} do not split an input of shape {list(inputs[0])}")
        require(
            sorted(self.order) == list(range(axes)), f"order is {list(self.order)}, expected 0 .. {axes - 1}, each once"
        )
        require_between(self.rows, 0, axes, "rows")
        require_between(self.columns, 0, axes - self.rows, "columns")
        joined = self._joined([self.sides[axis] for axis in self.order])
        for side in joined:
            require_between(side, 1, MAX_SIDE, "a side of the output")
        return joined

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        split = values[0].reshape(-1, *self.sides)
        order = (0, *(axis + 1 for axis in self.order))
        moved = split.transpose(order) if isinstance(split, np.ndarray) else split.permute(order)
        return moved.reshape(-1, *self._joined([self.sides[axis] for axis in self.order]))

    def _joined(self, sides: list[int]) -> Shape:
        middle = self.rows + self.columns
        return math.prod(sides[: self.rows]), math.prod(sides[self.rows : middle]), math.prod(sides[middle:])


@dataclass(frozen=True, eq=False)
class Constant(Operator):
    """y = values [H, W, C], whatever the input is, which only says where the layer stands.

    values: of the output's dtype, or float32 in a float network.
    """

    kind = "constant"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    values: NDArray[Any]

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        require(self.values.ndim == 3, f"values have {self.values.ndim} axes, expected [H, W, C]")
        if self.output.bits == REAL.bits:
            prove_finite(self.values, "values")
        height, width, channels = self.values.shape
        return height, width, channels

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        require(self.output.bits <= 8, f"output has {self.output.bits} bits, expected 1 .. 8")
        require_array(self.values, self.output.dtype, (self.output.shape,), "values")
        require_values(self.values, self.output.lo, self.output.hi, "values")

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        return np.repeat(self.values[np.newaxis], len(values[0]), axis=0)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        return self.integers(values, ())


@dataclass(frozen=True, eq=False)
class Take(Moving):
    """y[i, j, k] = x[rows[i], columns[j], channels[k]]; int32 [H'], [W'], [C'], 0 .. the input's side - 1.

    Other orders, nearest neighbours, repeated and mirrored edges. The output has the input's quantization.
    """

    kind = "take"

    name: str
    input: str
    output: TensorType = REAL
    _: KW_ONLY
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    channels: NDArray[np.int32]

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        for side, (what, places) in zip(inputs[0], self._places.items(), strict=True):
            require(places.dtype == np.int32 and places.ndim == 1, f"{what} are no list of int32")
            require_between(len(places), 1, MAX_SIDE, f"the number of {what}")
            require_values(places, 0, side - 1, what)
        return len(self.rows), len(self.columns), len(self.channels)

    def move(self, *values: Any, fill: float) -> Any:
        """As `Moving.move`."""
        rows, columns, channels = (places.astype(np.int64) for places in self._places.values())
        return values[0][:, rows][:, :, columns][..., channels]

    @property
    def _places(self) -> dict[str, NDArray[np.int32]]:
        return {"rows": self.rows, "columns": self.columns, "channels": self.channels}


def _filled(like: Any, shape: tuple[int, ...], fill: float) -> Any:
    """A NumPy array or PyTorch tensor of another one's type, of one number."""
    if isinstance(like, np.ndarray):
        return np.full(shape, fill, like.dtype)
    return like.new_full(shape, fill)
