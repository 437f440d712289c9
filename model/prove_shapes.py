"""Shape inference for each layer, with the requirements on its input shapes."""

import math

from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Dense,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Padding,
    Pair,
    Product,
    Rescale,
    ResizeBilinear,
    Shape,
    Slice,
    Upsample,
)
from edgemeta.model.require import require, require_between

MAX_SIDE = 1 << 16
"""Greatest height, width, channel count, stride and factor."""


def infer_shape(layer: Layer, inputs: tuple[Shape, ...]) -> Shape:
    """Shape (H, W, C) of the layer's output. Raises ModelError if the layer cannot run on these inputs."""
    first = inputs[0]
    match layer:
        case Conv():
            return _convolved(layer, first)
        case Dense():
            shape = layer.weights.shape
            require(len(shape) == 2, f"weights have shape {list(shape)}, expected [O, {math.prod(first)}]")
            require(shape[1] == math.prod(first), f"weights take {shape[1]} inputs, found {math.prod(first)}")
            return 1, 1, shape[0]
        case Add():
            require(first == inputs[1], f"inputs have shapes {list(first)} and {list(inputs[1])}, expected equal ones")
            return first
        case MaxPool() | AveragePool():
            return *slide(first, layer.kernel, layer.stride, layer.padding), first[2]
        case Concat():
            for shape in inputs:
                require(shape[:2] == first[:2], f"inputs have sizes {list(first[:2])} and {list(shape[:2])}")
            return first[0], first[1], sum(shape[2] for shape in inputs)
        case Upsample():
            for factor in layer.factor:
                require_between(factor, 1, MAX_SIDE, "factor")
            return first[0] * layer.factor[0], first[1] * layer.factor[1], first[2]
        case Product():
            expected = "an equal one or one factor per channel"
            is_fit = inputs[1] in (first, (1, 1, first[2]))
            require(is_fit, f"inputs have shapes {list(first)} and {list(inputs[1])}, expected {expected}")
            return first
        case Pad():
            return *_padded(first, layer), first[2]
        case Slice():
            return _sliced(first, layer)
        case ChannelShuffle():
            require_between(layer.groups, 1, first[2], "groups")
            require(first[2] % layer.groups == 0, f"{first[2]} channels are no multiple of {layer.groups} groups")
            return first
        case ResizeBilinear():
            return *layer.output.shape[:2], first[2]
        case Clamp() | Rescale() | Lookup():
            return first


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


def _convolved(layer: Conv, source: Shape) -> Shape:
    shape = layer.weights.shape
    require(len(shape) == 4, f"weights have shape {list(shape)}, expected [O, KH, KW, I]")
    channels, depth = shape[0], shape[3]
    require_between(layer.groups, 1, channels, "groups")
    require(
        source[2] == depth * layer.groups and channels % layer.groups == 0,
        f"weights have shape {list(shape)} in {layer.groups} groups, which does not fit {source[2]} input channels",
    )
    for axis, name in enumerate(("rows", "columns")):
        require_between(layer.dilation[axis], 1, MAX_SIDE, f"the dilation's {name}")
    return *slide(source, covered(layer), layer.stride, layer.padding), channels


def covered(layer: Conv) -> Pair:
    """Rows and columns from the first to the last tap of a convolution's kernel."""
    (height, width), (down, right) = layer.weights.shape[1:3], layer.dilation
    return (height - 1) * down + 1, (width - 1) * right + 1


def _padded(shape: Shape, layer: Pad) -> Pair:
    sides = []
    for axis, name in enumerate(("rows", "columns")):
        require_between(layer.spacing[axis], 1, MAX_SIDE, f"the spacing's {name}")
        for amount in (layer.padding[axis], layer.padding[axis + 2]):
            require_between(amount, 0, MAX_SIDE, f"the padding's {name}")
        inside = (shape[axis] - 1) * layer.spacing[axis] + 1
        sides.append(layer.padding[axis] + inside + layer.padding[axis + 2])
    return sides[0], sides[1]


def _sliced(shape: Shape, layer: Slice) -> Shape:
    sides = []
    for axis, name in enumerate(("rows", "columns", "channels")):
        start, stop, step = layer.start[axis], layer.stop[axis], layer.step[axis]
        require_between(stop, 1, shape[axis], f"the stop of the {name}")
        require_between(start, 0, stop - 1, f"the start of the {name}")
        require_between(step, 1, MAX_SIDE, f"the step of the {name}")
        sides.append(-(-(stop - start) // step))
    return sides[0], sides[1], sides[2]
