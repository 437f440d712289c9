"""Shape inference for each layer, with the requirements on its input shapes."""

import math

from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Concat,
    Conv,
    Dense,
    Layer,
    MaxPool,
    Padding,
    Pair,
    Rescale,
    Shape,
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
        case Clamp() | Rescale():
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
    channels, kernel_height, kernel_width, depth = shape
    require_between(layer.groups, 1, channels, "groups")
    require(
        source[2] == depth * layer.groups and channels % layer.groups == 0,
        f"weights have shape {list(shape)} in {layer.groups} groups, which does not fit {source[2]} input channels",
    )
    return *slide(source, (kernel_height, kernel_width), layer.stride, layer.padding), channels
