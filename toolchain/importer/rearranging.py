"""Nodes that move elements, or only see them in another way."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Add, ChannelShuffle, Concat, Dense, DepthToSpace, Slice
from edgemeta.toolchain.importer.answers import FLOATS
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32, maps_of, with_maps
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.taking import taken
from edgemeta.toolchain.importer.values import (
    AXES,
    Columns,
    Flat,
    Grouped,
    Halves,
    Joined,
    Map,
    Pixels,
    Rows,
    Value,
    flat,
)


def same(build: Builder, node: Node) -> Value:
    """Identity, Dropout in inference."""
    return build.value(node)


def cast(build: Builder, node: Node) -> Value:
    """Cast to a type of floating point numbers; one to integers would cut off."""
    if node.attributes.get("to", 0) not in FLOATS:
        raise UnsupportedError("a cast to integers, which cuts off the rest, expected one to floating point numbers")
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
    if halves := _halves(build, node, value, target):
        return halves
    if target[:1] != (1,):
        raise UnsupportedError(f"a result of shape {target}, expected 1 image in the first axis")
    made = _reshaped(build, node, value, target)
    if made is None:
        raise UnsupportedError(f"{build.shape(node.inputs[0])} seen as {target}")
    return made


def _halves(build: Builder, node: Node, value: Value, target: tuple[int, ...]) -> Value | None:
    """ShuffleNetV2's shuffle in three axes: [C / 2, 2, H W], its axes exchanged, and [2, 1, C / 2, H, W] of it."""
    match value:
        case Map(_, (height, width, channels)) if len(target) == 3 and target[2] == height * width:
            if target[0] * target[1] == channels and target[0] > 1:
                return Grouped(value, target[0])
        case Grouped(source, groups, "chw", True):
            height, width, channels = source.shape
            parts = channels // groups
            if target in ((parts, 1, groups, height, width), (parts, groups, height, width)):
                return Halves(build.add(ChannelShuffle(node.outputs[0], source.tensor, groups=groups)), parts)
    return None


def _reshaped(build: Builder, node: Node, value: Value, target: tuple[int, ...]) -> Value | None:
    if target == build.shape(node.inputs[0]):
        return value
    match value:
        case Map(tensor, (height, width, channels)):
            if target == (1, channels * height * width):
                return flat(value, "chw")
            if target == (1, channels, height * width):
                return Columns((value,))
            if (height, width) == (1, 1) and len(target) == 3 and channels % target[2] == 0:
                return Rows((value,), target[2])  # of one pixel, so channels need not be moved behind it
            if target == (1, height, width, 1):
                return Pixels(value)
            if len(target) == 5 and target[3:] == (height, width) and target[1] * target[2] == channels:
                return Grouped(value, target[1])
        case Flat(tensor, (height, width, channels), order):
            is_pixel = (height, width) == (1, 1)
            if target == (1, channels, height, width) and order == "chw":
                return Map(tensor, value.shape)
            if target == (1, height, width, channels) and (order == "hwc" or is_pixel):
                return Pixels(Map(tensor, value.shape))
            if is_pixel and len(target) == 3 and channels % target[2] == 0:
                return Rows((Map(tensor, value.shape),), target[2])
        case Pixels(source):
            if target == (1, prod(source.shape)):
                return flat(source, "hwc")
            if len(target) == 3 and source.shape[2] % target[2] == 0:
                return Rows((source,), target[2])
            if target == (1, 1, *source.shape[:2]) or (source.shape[:2] == (1, 1) and target[2:] == (1, 1)):
                return source
            if len(target) == 5 and target[1:3] == source.shape[:2]:
                return Grouped(source, target[3], "hwc")
        case Grouped(source, groups, order, True):
            kept = (source.shape[2], *source.shape[:2]) if order == "chw" else source.shape
            if target == (1, *kept):
                made = build.add(ChannelShuffle(node.outputs[0], source.tensor, groups=groups))
                return made if order == "chw" else Pixels(made)
        case Rows(maps, width) if len(maps) == 1 and len(target) == 2 and prod(maps[0].shape[:2]) == 1:
            return Flat(maps[0].tensor, maps[0].shape)
        case Rows(maps) if len(maps) == 1 and target == (1, *maps[0].shape):
            return Pixels(maps[0])
    return None


def transpose(build: Builder, node: Node) -> Value:
    """Transpose: another view."""
    return transposed(build, node, tuple(node.attributes.get("perm", ())))


def transposed(build: Builder, node: Node, order: tuple[int, ...]) -> Value:
    """The first input, its axes in another order."""
    value = build.value(node)
    if order == tuple(range(len(order))):
        return value
    match value, order:
        case (Columns(maps), (0, 2, 1)):
            return Rows(maps, maps[0].shape[2])
        case (Rows(maps, width), (0, 2, 1)) if all(each.shape[2] == width for each in maps):
            return Columns(maps)
        case (Grouped(source, groups, "chw", False), (0, 2, 1, 3, 4) | (1, 0, 2)):
            return Grouped(source, groups, "chw", is_exchanged=True)
        case (Grouped(source, groups, "hwc", False), (0, 1, 2, 4, 3)):
            return Grouped(source, groups, "hwc", is_exchanged=True)
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
    if any(isinstance(value, Flat) and value.shape[:2] != (1, 1) for value in values) and axis == 1:
        flats = [build.flat(node, number) for number in range(len(values))]
        return Joined(tuple(part for each in flats for part in (each.parts if isinstance(each, Joined) else (each,))))
    is_last = all(isinstance(value, Pixels) for value in values)
    if axis != (3 if is_last else 1):
        raise UnsupportedError(f"axis {axis}, expected the channels")
    maps = tuple(build.pixels(node, i) if is_last else build.map(node, i) for i in range(len(values)))
    made = build.add(Concat(node.outputs[0], tuple(each.tensor for each in maps)))
    if is_last:
        return Pixels(made)
    return Flat(made.tensor, made.shape) if isinstance(values[0], Flat) else made


def slice_of(build: Builder, node: Node) -> Value:
    """Slice by constants, forwards."""
    starts, ends, axes, steps = (numbers_of(build, node, number, name) for number, name in enumerate(_SLICE, 1))
    if starts is None or ends is None:
        raise UnsupportedError("its starts or ends are missing")
    count = len(starts)
    return sliced(build, node, starts, ends, axes or list(range(count)), steps or [1] * count)


def sliced(
    build: Builder, node: Node, starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> Map | Pixels:
    """The part of a map from `starts` below `ends`, every `steps`, along `axes`, as Python slices it."""
    view = build.image(node)
    source = maps_of(view)[0]
    begin, stop, step = [0, 0, 0], list(source.shape), [1, 1, 1]
    if any(every < 0 for every in steps) and not any(axis % 4 == 0 for axis in axes):
        return _turned(build, node, [AXES[type(view)][axis % 4] for axis in axes], starts, ends, steps)
    for axis, start, end, every in zip(axes, starts, ends, steps, strict=True):
        ours = AXES[type(view)].get(axis % 4)
        if ours is None and range(1)[start:end:every] == range(1):
            continue  # the one image
        if ours is None or every < 1:
            raise UnsupportedError(f"axis {axis} by steps of {every}, expected channels, rows or columns, forwards")
        begin[ours], stop[ours], _ = slice(start, end).indices(source.shape[ours])
        step[ours] = every
    first, last, by = ((a[0], a[1], a[2]) for a in (begin, stop, step))
    return with_maps(view, (build.add(Slice(node.outputs[0], source.tensor, start=first, stop=last, step=by)),))


def _turned(
    build: Builder, node: Node, axes: list[int], starts: list[int], ends: list[int], steps: list[int]
) -> Map | Pixels:
    """A slice that runs backwards along one of the axes, which are those of H, W, C."""
    view = build.image(node)
    source = maps_of(view)[0]
    places: list[Any] = [None, None, None]
    for ours, start, end, every in zip(axes, starts, ends, steps, strict=True):
        places[ours] = np.arange(source.shape[ours])[
            start : None if every < 0 and end < -source.shape[ours] else end : every
        ]
    return with_maps(view, (taken(build, source, node.outputs[0], places),))


_SLICE = ("starts", "ends", "axes", "steps")


def numbers_of(build: Builder, node: Node, number: int, name: str) -> list[int] | None:
    """Whole numbers that an operator has as a constant input or, in an older form, as an attribute; None without."""
    given = build.constant(node, number)
    if given is not None:
        return [int(each) for each in given.ravel()]
    return list(node.attributes[name]) if name in node.attributes else None


def split(build: Builder, node: Node) -> tuple[Value, ...]:
    """Split: a slice for each part."""
    return split_along(build, node, node.attributes.get("axis", 0), numbers_of(build, node, 1, "split"))


def split_along(build: Builder, node: Node, axis: int, parts: list[int] | None, number: int = 0) -> tuple[Value, ...]:
    """Parts of input `number` along an axis, of these sizes; without sizes equal ones, the last one smaller."""
    view = build.image(node, number)
    source, ours = maps_of(view)[0], AXES[type(view)].get(axis % 4)
    if ours is None:
        raise UnsupportedError("a split of the batch")
    side = source.shape[ours]
    sizes = parts or [-(-side // len(node.outputs))] * len(node.outputs)
    values, at = [], 0
    for size, output in zip(sizes, node.outputs, strict=True):
        begin, stop = [0, 0, 0], list(source.shape)
        begin[ours], stop[ours] = at, min(at + size, side)
        first, last = (begin[0], begin[1], begin[2]), (stop[0], stop[1], stop[2])
        values.append(with_maps(view, (build.add(Slice(output, source.tensor, start=first, stop=last)),)))
        at += size
    return tuple(values)


def space_to_depth(build: Builder, node: Node) -> Value:
    """SpaceToDepth: a slice for each place in a block, then their channels one after the other."""
    return blocks(build, build.map(node), node.outputs[0], node.attributes["blocksize"])


def depth_to_space(build: Builder, node: Node) -> Value:
    """DepthToSpace; in mode CRD (PyTorch's PixelShuffle) a channel shuffle puts places before channels."""
    source, name, block = build.map(node), node.outputs[0], node.attributes["blocksize"]
    if block >= 1 and node.attributes.get("mode", "DCR") == "CRD" and source.shape[2] % block**2 == 0:
        groups = source.shape[2] // block**2
        source = build.add(ChannelShuffle(f"{name}.places", source.tensor, groups=groups))
    return build.add(DepthToSpace(name, source.tensor, block=block))


def blocks(build: Builder, source: Map, name: str, block: int) -> Map:
    """The map with the elements of each block as channels."""
    if not 1 <= block <= min(source.shape[:2]):
        raise UnsupportedError(f"blocks of {block} in a map of shape {source.shape}")
    parts = [
        build.add(Slice(f"{name}.{y}.{x}", source.tensor, start=(y, x, 0), stop=source.shape, step=(block, block, 1)))
        for y, x in np.ndindex(block, block)
    ]
    return build.add(Concat(name, tuple(each.tensor for each in parts)))


def gemm(build: Builder, node: Node) -> Value:
    """Gemm and MatMul by a constant: a dense layer, its weights in the order H, W, C."""
    rows, given = rows_of(build, node), build.constant(node, 2)
    bias = None if given is None else given.ravel() * node.attributes.get("beta", 1.0)
    return dense(build, build.flat(node), node.outputs[0], rows, bias)


def rows_of(build: Builder, node: Node) -> NDArray[Any]:
    """Weights [outputs, inputs] of Gemm and MatMul by a constant."""
    weight, factor = build.required(node, 1), node.attributes.get("alpha", 1.0)
    if weight.ndim > 2:
        raise UnsupportedError(f"{prod(weight.shape[:-2])} constant matrices, one for each part, expected one for all")
    if weight.ndim != 2 or node.attributes.get("transA", 0):
        raise UnsupportedError(f"a matrix of {weight.ndim} axes, expected [1, inputs] by a constant matrix")
    rows: NDArray[Any] = weight if node.attributes.get("transB", 0) else weight.T
    return rows if factor == 1 else rows.astype(np.float64) * factor


def dense(build: Builder, value: Flat | Joined, name: str, rows: NDArray[Any], bias: NDArray[Any] | None) -> Flat:
    """A dense layer; rows [outputs, inputs] in the order in which the value is seen, bias [outputs] or one number.

    Of joined maps it is the sum of one for each.
    """
    if isinstance(value, Joined):
        sizes = np.cumsum([prod(each.shape) for each in value.parts])
        if rows.shape[1] != sizes[-1]:
            raise UnsupportedError(f"weights of shape {rows.shape} for {sizes[-1]} inputs")
        total: Flat | None = None
        for number, (part, columns) in enumerate(zip(value.parts, np.split(rows, sizes[:-1], axis=1), strict=True)):
            term = dense(build, part, f"{name}.part{number}", columns, None if total else bias)
            last = name if number == len(sizes) - 1 else f"{name}.sum{number}"
            both: Flat | Map = term if total is None else build.add(Add(last, (total.tensor, term.tensor)))
            total = Flat(both.tensor, both.shape)
        assert total is not None
        return total
    height, width, channels = value.shape
    if rows.shape[1] != prod(value.shape):
        raise UnsupportedError(f"weights of shape {rows.shape} for {prod(value.shape)} inputs")
    if value.order == "chw":
        rows = rows.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(rows), -1)
    shift = None if bias is None else float32(np.broadcast_to(bias, (len(rows),)))
    made = build.add(Dense(name, value.tensor, weights=float32(rows), bias=shift))
    return Flat(made.tensor, made.shape)
