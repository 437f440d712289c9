"""Layers that only move elements. Each has one body for integers, reals and PyTorch: `Moving.move`."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from edgemeta.model.layers.operator import MAX_SIDE, Joining, Moving
from edgemeta.model.layers.types import REAL, Padding, Pair, Shape, TensorType
from edgemeta.model.require import require, require_between


@dataclass(frozen=True)
class Concat(Joining, Moving):
    """Concatenates the channels of the inputs; all tensors have the same quantization (a Rescale ensures it)."""

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
    commutes = True

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

    Output H = top + (H - 1) * spacing_y + 1 + bottom, W alike. The output has the input's quantization.
    """

    kind = "pad"
    commutes = True

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
    """y[i, j, k] = x[start + (i, j, k) * step] below `stop`, in H, W, C. The output has the input's quantization."""

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
    """y[c] = x[(c % groups) * (C / groups) + c // groups]. The output has the input's quantization."""

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
    """y[i * block + u, j * block + v, c] = x[i, j, (u * block + v) * (C / block**2) + c]."""

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


def _filled(like: Any, shape: tuple[int, ...], fill: float) -> Any:
    """A NumPy array or PyTorch tensor of another one's type, of one number."""
    if isinstance(like, np.ndarray):
        return np.full(shape, fill, like.dtype)
    return like.new_full(shape, fill)
