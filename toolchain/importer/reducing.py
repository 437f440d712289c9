"""Sums, means and extremes: over axes of one tensor, and of several tensors element by element."""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Literal, TypeAlias

import numpy as np

from edgemeta.model.layers import (
    AveragePool,
    Concat,
    Conv,
    DepthToSpace,
    Function,
    GlobalAverage,
    MaxPool,
    PRelu,
    Product,
    Slice,
)
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32, maps_of, with_maps
from edgemeta.toolchain.importer.elementwise import add, clipped, constant_operand, is_scale, negated, scaled, two
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.taking import spread
from edgemeta.toolchain.importer.values import AXES, Columns, Flat, Map, Pixels, Rows, Value

Kind: TypeAlias = Literal["mean", "sum", "max", "min", "norm"]
"""norm: the root of the sum of squares."""


def reduce(kind: Kind) -> Callable[[Builder, Node], Value]:
    """ReduceMean, ReduceSum, ReduceMax and so on: axes as an attribute or an input, all of them without."""

    def convert(build: Builder, node: Node) -> Value:
        given = build.constant(node, 1)
        axes = node.attributes.get("axes", ()) if given is None else given.ravel()
        if not len(axes) and node.attributes.get("noop_with_empty_axes", 0):
            return build.value(node)
        keeps = bool(node.attributes.get("keepdims", node.attributes.get("keep_dims", node.op[:6] == "Reduce")))
        return reduced(build, node, [int(axis) for axis in axes], keeps, kind)

    return convert


def reduced(build: Builder, node: Node, axes: list[int], keeps_axes: bool, kind: Kind) -> Value:
    """The reduction of a map over rows, columns and channels, or some of them."""
    view, name = build.image(node), node.outputs[0]
    source = maps_of(view)[0]
    places = [AXES[type(view)].get(axis % 4, -1) for axis in axes or (1, 2, 3)]
    if -1 in places or len(set(places)) != len(places):
        raise UnsupportedError(f"axes {axes}, expected rows, columns or channels")
    if kind == "norm":
        source = build.add(Function(f"{name}.squares", source.tensor, "power", 2.0))
    made = _over_pixels(build, source, name, places, kind)
    if 2 in places:
        made = _over_channels(build, made, name, kind)
    if kind == "norm":
        made = build.add(Function(name, made.tensor, "power", 0.5))
    if keeps_axes:
        return with_maps(view, (made,))
    match sorted(places), view:
        case [0, 1], _:
            return Flat(made.tensor, made.shape)
        case (([0] | [1]), Map()):
            return Columns((made,))
        case (([0] | [1]), Pixels()):
            return Rows((made,), made.shape[2])
    raise UnsupportedError(f"axes {axes} that are left out of the result, expected keepdims 1")


def _over_pixels(build: Builder, source: Map, name: str, places: Sequence[int], kind: Kind) -> Map:
    sides = source.shape[0] if 0 in places else 1, source.shape[1] if 1 in places else 1
    if not {0, 1}.intersection(places):
        return source
    match kind:
        case "max":
            return build.add(MaxPool(name, source.tensor, kernel=sides, stride=sides))
        case "min":
            turned = negated(build, source, f"{name}.minus")
            return negated(build, _over_pixels(build, turned, name, places, "max"), name)
    if {0, 1} <= set(places):
        made = build.add(GlobalAverage(name, source.tensor))
    else:
        made = build.add(AveragePool(name, source.tensor, kernel=sides, stride=sides))
    return made if kind == "mean" else scaled(build, made, f"{name}.sum", float(sides[0] * sides[1]))


def _over_channels(build: Builder, source: Map, name: str, kind: Kind) -> Map:
    """Sums by a convolution; the greatest of channels that lie side by side in a block of pixels."""
    channels = source.shape[2]
    match kind:
        case "max":
            return _greatest(build, [source], name, channels)
        case "min":
            turned = negated(build, source, f"{name}.minus")
            return negated(build, _over_channels(build, turned, name, "max"), name)
    share = np.full((1, 1, 1, channels), 1 / channels if kind == "mean" else 1.0)
    return build.add(Conv(name, source.tensor, weights=float32(share)))


def _greatest(build: Builder, maps: Sequence[Map], name: str, groups: int) -> Map:
    """The greatest of the `groups` parts of all channels, by a pool over a block of pixels made of them."""
    side = isqrt(groups - 1) + 1
    width = sum(each.shape[2] for each in maps) // groups
    names = [each.tensor for each in maps]
    for number in range(side * side - groups):  # the last part again, until they fill a block
        last = maps[-1]
        if number == 0 and last.shape[2] > width:
            last = _last_channels(build, last, f"{name}.last", width)
            names.append(last.tensor)
        else:
            names.append(names[-1])
    joined = build.add(Concat(f"{name}.parts", tuple(names))).tensor if len(names) > 1 else names[0]
    block = build.add(DepthToSpace(f"{name}.block", joined, block=side))
    return build.add(MaxPool(name, block.tensor, kernel=(side, side), stride=(side, side)))


def _last_channels(build: Builder, source: Map, name: str, count: int) -> Map:
    start = (0, 0, source.shape[2] - count)
    return build.add(Slice(name, source.tensor, start=start, stop=source.shape))


def local_response(build: Builder, node: Node) -> Value:
    """LRN: x times a power of the sum of squares of the channels beside it, by a convolution of the squares."""
    view, name, size = build.image(node), node.outputs[0], int(node.attributes["size"])
    source = maps_of(view)[0]
    alpha, beta, bias = (float(node.attributes.get(key, usual)) for key, usual in _LRN)
    channels = np.arange(source.shape[2])
    beside = channels - channels[:, np.newaxis]
    shares = np.where((beside >= -((size - 1) // 2)) & (beside <= size // 2), alpha / size, 0.0)
    squares = build.add(Function(f"{name}.squares", source.tensor, "power", 2.0))
    weights, shift = float32(shares[:, np.newaxis, np.newaxis]), float32(np.full(len(channels), bias))
    sums = build.add(Conv(f"{name}.sums", squares.tensor, weights=weights, bias=shift))
    factors = build.add(Function(f"{name}.factors", sums.tensor, "power", -beta))
    return with_maps(view, (build.add(Product(name, (source.tensor, factors.tensor))),))


def to_length_one(build: Builder, node: Node) -> Value:
    """TFLite's L2_NORMALIZATION: the channels of each pixel, or a vector, divided by their length."""
    value, name = build.value(node), node.outputs[0]
    if not isinstance(value, Map | Pixels | Flat) or (isinstance(value, Flat) and value.shape[:2] != (1, 1)):
        raise UnsupportedError(f"its input has the form {build.shape(node.inputs[0])}, expected channels or a vector")
    source = maps_of(value)[0]
    squares = build.add(Function(f"{name}.squares", source.tensor, "power", 2.0))
    sums = build.add(Function(f"{name}.sum", _over_channels(build, squares, name, "sum").tensor, "clip", _LEAST, _MOST))
    inverse = build.add(Function(f"{name}.inverse", sums.tensor, "power", -0.5))
    factors = spread(build, inverse, f"{name}.factors", source.shape)
    return with_maps(value, (build.add(Product(name, (source.tensor, factors.tensor))),))


_LEAST, _MOST = 1e-6, float(np.finfo(np.float32).max)
"""Least sum of squares that TFLite divides by, and a bound that no number reaches."""
_LRN = (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))


def total(build: Builder, node: Node) -> Value:
    """Sum of any number of tensors, as a chain of additions."""
    if len(node.inputs) == 1:
        return build.value(node)
    made, first = node.outputs[0], node.inputs[0]
    for number, second in enumerate(node.inputs[1:]):
        is_last = number == len(node.inputs) - 2
        output = made if is_last else f"{made}.{number}"
        value = add(build, Node(node.op, node.name, (first, second), (output,), node.attributes))
        if is_last:
            return value
        build.values[output], first = value, output
    raise AssertionError(node)


def extreme(kind: Literal["max", "min"]) -> Callable[[Builder, Node], Value]:
    """Max and Min: of one number as a clip, of x and a part of it as a PReLU, of tensors as a pool."""

    def convert(build: Builder, node: Node) -> Value:
        if len(node.inputs) == 1:
            return build.value(node)
        constant = constant_operand(build, node)
        if constant and len(node.inputs) == 2:
            bound = build.required(node, constant - 1)
            if bound.size != 1:
                raise UnsupportedError(f"a constant of shape {bound.shape}, expected one number")
            low, high = (float(bound.reshape(())), None) if kind == "max" else (None, float(bound.reshape(())))
            return clipped(build, build.value(node, 2 - constant), node.outputs[0], low, high)
        view, maps = two(build, node, range(len(node.inputs)))
        if any(each.shape != maps[0].shape for each in maps):
            raise UnsupportedError(f"tensors of sizes {', '.join(str(each.shape) for each in maps)} (H, W, C)")
        return with_maps(view, (_extreme(build, maps, node.outputs[0], kind),))

    return convert


def _extreme(build: Builder, maps: Sequence[Map], name: str, kind: Literal["max", "min"]) -> Map:
    if kind == "max" and len(maps) == 2:
        for source, part in (maps, maps[::-1]):
            slopes = is_scale(build, part.tensor, source.tensor)
            if slopes is not None and slopes.min() >= 0 and slopes.max() <= 1:
                return build.add(PRelu(name, source.tensor, slopes))
    if kind == "max":
        return _greatest(build, maps, name, len(maps))
    turned = [negated(build, each, f"{name}.minus") for each in maps]
    return negated(build, _greatest(build, turned, f"{name}.greatest", len(maps)), name)
