"""Nodes that move elements, or only see them in another way."""

from math import prod

import numpy as np

from edgemeta.toolchain.float_model.graph import (
    ChannelShuffle,
    Concat,
    Dense,
    GlobalAverage,
    Pad,
    ResizeBilinear,
    Slice,
    Upsample,
)
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32, maps_of
from edgemeta.toolchain.importer.onnx_file import Node
from edgemeta.toolchain.importer.values import Columns, Flat, Grouped, Map, Pixels, Rows, Value

_OUR_AXIS = {1: 2, 2: 0, 3: 1}
"""Of H, W, C, by the axis of N, C, H, W."""


def same(build: Builder, node: Node) -> Value:
    """Identity, Dropout in inference, Cast between float types."""
    return build.value(node)


def softmax(build: Builder, node: Node) -> Value:
    """At the end it is left out: scores are made of logits, and the greatest stays the greatest."""
    if node.outputs[0] not in build.graph.outputs:
        raise UnsupportedError("a softmax inside the network, expected one at its end only")
    build.notes.append(f"{node.place} is left out: scores are computed from the logits before it")
    return build.value(node)


def reshape(build: Builder, node: Node) -> Value:
    """Reshape, Flatten, Squeeze, Unsqueeze: the shape of the result says what is meant."""
    value, target = build.value(node), build.shape(node.outputs[0])
    if target[:1] != (1,):
        raise UnsupportedError(f"a result of shape {target}, expected 1 image in the first axis")
    made = _reshaped(build, node, value, target)
    if made is None:
        raise UnsupportedError(f"{build.shape(node.inputs[0])} seen as {target}")
    return made


def _reshaped(build: Builder, node: Node, value: Value, target: tuple[int, ...]) -> Value | None:
    if target == build.shape(node.inputs[0]):
        return value
    match value:
        case Map(tensor, (height, width, channels)):
            if target == (1, channels * height * width):
                return Flat(tensor, value.shape)
            if target == (1, channels, height * width):
                return Columns((value,))
            if (height, width) == (1, 1) and len(target) == 3 and channels % target[2] == 0:
                return Rows((value,), target[2])  # of one pixel, so channels need not be moved behind it
            if len(target) == 5 and target[3:] == (height, width) and target[1] * target[2] == channels:
                return Grouped(value, target[1])
        case Flat(tensor, (height, width, channels)):
            if target == (1, channels, height, width):
                return Map(tensor, value.shape)
        case Pixels(source):
            if len(target) == 3 and source.shape[2] % target[2] == 0:
                return Rows((source,), target[2])
        case Grouped(source, groups, True):
            if target == (1, source.shape[2], *source.shape[:2]):
                return build.add(ChannelShuffle(node.outputs[0], source.tensor, groups))
        case Rows(maps, width) if len(maps) == 1 and len(target) == 2 and prod(maps[0].shape[:2]) == 1:
            return Flat(maps[0].tensor, maps[0].shape)
    return None


def transpose(build: Builder, node: Node) -> Value:
    """Transpose: another view."""
    value, order = build.value(node), tuple(node.attributes.get("perm", ()))
    match value, order:
        case (Columns(maps), (0, 2, 1)):
            return Rows(maps, maps[0].shape[2])
        case (Rows(maps, width), (0, 2, 1)) if all(each.shape[2] == width for each in maps):
            return Columns(maps)
        case (Grouped(source, groups, False), (0, 2, 1, 3, 4)):
            return Grouped(source, groups, is_exchanged=True)
        case (Map(), (0, 2, 3, 1)):
            return Pixels(value)
        case (Pixels(source), (0, 3, 1, 2)):
            return source
    raise UnsupportedError(f"axes {order} of a tensor of shape {build.shape(node.inputs[0])}")


def concat(build: Builder, node: Node) -> Value:
    """Concat: of channels by a layer, of pixels by another view."""
    values = [build.value(node, number) for number in range(len(node.inputs))]
    axis = node.attributes["axis"] % len(build.shape(node.inputs[0]))
    if all(isinstance(value, Columns) for value in values) and axis == 2:
        return Columns(tuple(each for value in values for each in maps_of(value)))
    if all(isinstance(value, Rows) for value in values) and axis == 1:
        widths = {value.width for value in values if isinstance(value, Rows)}
        return Rows(tuple(each for value in values for each in maps_of(value)), widths.pop())
    if axis != 1:
        raise UnsupportedError(f"axis {axis}, expected the channels, axis 1")
    maps = tuple(build.map(node, number) for number in range(len(values)))
    made = build.add(Concat(node.outputs[0], tuple(each.tensor for each in maps)))
    return Flat(made.tensor, made.shape) if isinstance(values[0], Flat) else made


def slice_of(build: Builder, node: Node) -> Value:
    """Slice by constants, forwards."""
    source = build.map(node)
    starts, ends, axes, steps = (_numbers(build, node, number, name) for number, name in enumerate(_SLICE, 1))
    if starts is None or ends is None:
        raise UnsupportedError("its starts or ends are missing")
    begin, stop, step = [0, 0, 0], list(source.shape), [1, 1, 1]
    for place, axis in enumerate(axes or range(len(starts))):
        ours = _OUR_AXIS.get(axis % 4)
        every = steps[place] if steps else 1
        if ours is None or every < 1:
            raise UnsupportedError(f"axis {axis} by steps of {every}, expected channels, rows or columns, forwards")
        begin[ours], stop[ours], _ = slice(starts[place], ends[place]).indices(source.shape[ours])
        step[ours] = every
    first, last, by = ((a[0], a[1], a[2]) for a in (begin, stop, step))
    return build.add(Slice(node.outputs[0], source.tensor, first, last, by))


_SLICE = ("starts", "ends", "axes", "steps")


def _numbers(build: Builder, node: Node, number: int, name: str) -> list[int] | None:
    given = build.constant(node, number)
    if given is not None:
        return [int(each) for each in given.ravel()]
    return list(node.attributes[name]) if name in node.attributes else None


def split(build: Builder, node: Node) -> tuple[Value, ...]:
    """Split: a slice for each part."""
    source = build.map(node)
    axis = _OUR_AXIS.get(node.attributes.get("axis", 0) % 4)
    if axis is None:
        raise UnsupportedError("a split of the batch")
    side = source.shape[axis]
    parts = _numbers(build, node, 1, "split") or [-(-side // len(node.outputs))] * len(node.outputs)
    values, at = [], 0
    for size, output in zip(parts, node.outputs, strict=True):
        begin, stop = [0, 0, 0], list(source.shape)
        begin[axis], stop[axis] = at, min(at + size, side)
        first, last = (begin[0], begin[1], begin[2]), (stop[0], stop[1], stop[2])
        values.append(build.add(Slice(output, source.tensor, first, last)))
        at += size
    return tuple(values)


def space_to_depth(build: Builder, node: Node) -> Value:
    """SpaceToDepth: a slice for each place in a block, then their channels one after the other."""
    source, block = build.map(node), node.attributes["blocksize"]
    parts = [
        build.add(Slice(f"{node.outputs[0]}.{y}.{x}", source.tensor, (y, x, 0), source.shape, (block, block, 1)))
        for y, x in np.ndindex(block, block)
    ]
    return build.add(Concat(node.outputs[0], tuple(each.tensor for each in parts)))


def pad(build: Builder, node: Node) -> Value:
    """Pad with zeros, of rows and columns."""
    source = build.map(node)
    amounts, fill = _numbers(build, node, 1, "pads"), build.constant(node, 2)
    value = float(node.attributes.get("value", 0.0)) if fill is None or not fill.size else float(fill.reshape(()))
    mode = node.attributes.get("mode", "constant")
    if mode != "constant" or value != 0 or amounts is None or build.constant(node, 3) is not None:
        raise UnsupportedError(f"mode {mode} with {value:g}, expected constant with 0")
    if len(amounts) != 8 or any(amounts[i] for i in (0, 1, 4, 5)) or min(amounts) < 0:
        raise UnsupportedError(f"amounts {amounts}, expected those of rows and columns, none below 0")
    padding = (amounts[2], amounts[3], amounts[6], amounts[7])
    return build.add(Pad(node.outputs[0], source.tensor, padding))


def resize(build: Builder, node: Node) -> Value:
    """Resize and Upsample: nearest by whole numbers, or bilinear."""
    source, target = build.map(node), build.shape(node.outputs[0])
    size = (target[2], target[3])
    mode = node.attributes.get("mode", "nearest")
    places = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    if node.op == "Upsample":
        places = "asymmetric"
    if node.attributes.get("antialias", 0) or target[1] != source.shape[2]:
        raise UnsupportedError("antialiasing or other channels, expected rows and columns only")
    if mode in ("linear", "bilinear"):
        if places == "pytorch_half_pixel" and min(size) > 1:
            places = "half_pixel"
        if places not in ("half_pixel", "align_corners", "asymmetric"):
            raise UnsupportedError(f"coordinates {places}, expected half_pixel, align_corners or asymmetric")
        return build.add(ResizeBilinear(node.outputs[0], source.tensor, size, places))
    factor = (size[0] // source.shape[0], size[1] // source.shape[1])
    is_whole = (source.shape[0] * factor[0], source.shape[1] * factor[1]) == size and min(factor) >= 1
    rounding = node.attributes.get("nearest_mode", "round_prefer_floor")
    is_left = rounding == "floor" if places == "asymmetric" else "half_pixel" in places and "round" in rounding
    if mode != "nearest" or not is_whole or not (is_left or node.op == "Upsample" or max(factor) <= 2):
        raise UnsupportedError(f"mode {mode} ({places}, {rounding}) from {source.shape[:2]} to {size}")
    return build.add(Upsample(node.outputs[0], source.tensor, factor))


def reduce_mean(build: Builder, node: Node) -> Value:
    """ReduceMean over rows and columns."""
    axes = _numbers(build, node, 1, "axes")
    if sorted(axis % 4 for axis in axes or ()) != [2, 3]:
        raise UnsupportedError(f"axes {axes}, expected rows and columns, [2, 3]")
    made = build.add(GlobalAverage(node.outputs[0], build.map(node).tensor))
    return made if node.attributes.get("keepdims", 1) else Flat(made.tensor, made.shape)


def gemm(build: Builder, node: Node) -> Value:
    """Gemm and MatMul by a constant: a dense layer, its weights in the order H, W, C."""
    value, weight = build.value(node), build.required(node, 1).astype(np.float64)
    if not isinstance(value, Flat) or weight.ndim != 2 or node.attributes.get("transA", 0):
        raise UnsupportedError(f"a matrix by {build.shape(node.inputs[0])}, expected [1, inputs] by a constant matrix")
    rows = weight if node.attributes.get("transB", 0) else weight.T
    height, width, channels = value.shape
    if rows.shape[1] != height * width * channels:
        raise UnsupportedError(f"weights of shape {weight.shape} for {height * width * channels} inputs")
    rows = rows * node.attributes.get("alpha", 1.0)
    ordered = rows.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(rows), -1)
    given = build.constant(node, 2)
    bias = None
    if given is not None:
        bias = float32(np.broadcast_to(given.ravel() * node.attributes.get("beta", 1.0), (len(rows),)))
    made = build.add(Dense(node.outputs[0], value.tensor, float32(ordered), bias))
    return Flat(made.tensor, made.shape)
