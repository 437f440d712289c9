"""Tensors of any rank as maps whose sides are split and put in another order: tokens, heads, windows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Protocol

import numpy as np

from edgemeta.model.layers import BatchNorm, FloatLayer, MatMul, Rearrange, Shape
from edgemeta.toolchain.importer.values import Axes, Axis, Columns, Flat, Grouped, Map, Pixels, Rows, Value


class Layers(Protocol):
    """Where layers are made: the builder."""

    @property
    def layers(self) -> Mapping[str, FloatLayer]:
        """By name."""

    def add(self, layer: FloatLayer) -> Map:
        """Append a layer; its result."""


def natural(map_: Map, sides: Sequence[int]) -> Axes:
    """A map seen with these sides, in the order H, W, C."""
    strides = [prod(sides[i + 1 :]) for i in range(len(sides))]
    return Axes(map_, tuple(_axis([(side, stride)]) for side, stride in zip(sides, strides, strict=True)))


def axes_of(value: Value) -> Axes | None:
    """How any view of one map sees it; None for views of several maps."""
    match value:
        case Axes():
            return value
        case Map(_, (height, width, channels)):
            return permuted(natural(value, (1, height, width, channels)), (0, 3, 1, 2))
        case Pixels(source):
            return natural(source, (1, *source.shape))
        case Flat(tensor, (height, width, channels), order):
            source = Map(tensor, value.shape)
            seen = natural(source, (1, height, width, channels))
            return reshaped(permuted(seen, (0, 3, 1, 2)) if order == "chw" else seen, (1, prod(value.shape)))
        case Columns((source,)):
            return permuted(natural(source, (1, prod(source.shape[:2]), source.shape[2])), (0, 2, 1))
        case Rows((source,), width):
            return natural(source, (1, prod(source.shape) // width, width))
        case Grouped(source, groups, order, is_exchanged):
            height, width, channels = source.shape
            seen = natural(source, (1, height, width, groups, channels // groups))
            if is_exchanged:
                seen = permuted(seen, (0, 1, 2, 4, 3))
            return permuted(seen, (0, 3, 4, 1, 2)) if order == "chw" else seen
    return None


def view_of(view: Axes) -> Value:
    """The plainest view that is equal to this one."""
    source = view.map
    if view.factor != 1:
        return view
    pixels = prod(source.shape[:2])
    others: tuple[Value, ...] = (
        source,
        Pixels(source),
        Flat(source.tensor, source.shape, "chw"),
        Flat(source.tensor, source.shape, "hwc"),
        *((Rows((source,), source.shape[2]), Columns((source,))) if pixels > 1 else ()),
    )
    for other in others:
        seen = axes_of(other)
        if seen is not None and seen.axes == view.axes:
            return other
    return view


def permuted(view: Axes, order: Sequence[int]) -> Axes:
    """The axes in another order."""
    return replace(view, axes=tuple(view.axes[axis] for axis in order))


def reshaped(view: Axes, shape: Sequence[int]) -> Axes | None:
    """The same elements with other axes; None if a side would be split in a way that it has not."""
    left = [part for axis in view.axes for part in axis]
    axes = []
    for side in shape:
        parts, need = [], side
        while need > 1:
            if not left:
                return None
            size, stride = left.pop(0)
            if need % size == 0:
                parts.append((size, stride))
                need //= size
            elif size % need == 0:
                inner = size // need
                parts.append((need, stride * inner))
                left.insert(0, (inner, stride))
                need = 1
            else:
                return None
        axes.append(_axis(parts))
    return None if left else replace(view, axes=tuple(axes))


def arranged(
    build: Layers, view: Axes, rows: Sequence[int], columns: Sequence[int], channels: Sequence[int]
) -> Map | None:
    """A map whose rows, columns and channels are these axes, made by a layer if need be; None if it can't be made.

    Without rows the columns may be rows and columns as they lie in the map. A factor of the view becomes a layer.
    """
    order = [*rows, *columns, *channels]
    parts = [part for axis in order for part in view.axes[axis]]
    sizes = [prod(size for axis in axes for size, _ in view.axes[axis]) for axes in (rows, columns, channels)]
    made, shape = view.map, (sizes[0], sizes[1], sizes[2])
    is_natural = _axis(parts) == _axis([(prod(made.shape), 1)])
    if not (is_natural and (made.shape == shape or (not rows and made.shape[2] == shape[2]))):
        split = _split(parts, made.shape)
        if split is None:
            return None
        sides = sorted(split, key=lambda part: -part[1])
        counts = [_count(split, sizes[0]), _count(split, sizes[0] * sizes[1])]
        layer = Rearrange(
            f"{made.tensor}.arranged",
            made.tensor,
            sides=tuple(size for size, _ in sides) or (1,),
            order=tuple(sides.index(part) for part in split) or (0,),
            rows=counts[0],
            columns=counts[1] - counts[0],
        )
        made = build.add(layer)
    return plain(build, replace(view, map=made)).map


def _count(parts: Sequence[tuple[int, int]], elements: int) -> int:
    """How many of the first parts have so many elements together."""
    return next(count for count in range(len(parts) + 1) if prod(size for size, _ in parts[:count]) == elements)


def scaled(build: Layers, source: Map, factor: float) -> Map:
    """A map times a number: in the products that make it, or a layer."""
    layer = build.layers.get(source.tensor)
    if isinstance(layer, MatMul) and factor > 0:
        return build.add(replace(layer, factor=layer.factor * factor))
    channels = source.shape[2]
    zero, one = np.zeros(channels, np.float32), np.ones(channels, np.float32)
    return build.add(
        BatchNorm(f"{source.tensor}.scaled", source.tensor, one * np.float32(factor), zero, zero, one, 0.0)
    )


def plain(build: Layers, view: Axes) -> Axes:
    """The same tensor, its factor a layer."""
    return view if view.factor == 1 else replace(view, map=scaled(build, view.map, view.factor), factor=1.0)


def _split(parts: Sequence[tuple[int, int]], shape: Shape) -> list[tuple[int, int]] | None:
    """Parts that lie in the rows, columns or channels of a map each."""
    split = []
    for size, stride in parts:
        left = size
        for border in (shape[1] * shape[2], shape[2]):  # from one row, and from one column to the next
            if stride < border < stride * left:
                if border % stride or left % (border // stride):
                    return None
                inner = border // stride
                split.append((left // inner, border))
                left = inner
        split.append((left, stride))
    return [part for part in split if part[0] > 1]


def _axis(parts: Sequence[tuple[int, int]]) -> Axis:
    """Sides and their strides, those of 1 left out, neighbours joined where they lie beside each other."""
    joined: list[tuple[int, int]] = []
    for size, stride in parts:
        if size == 1:
            continue
        if joined and joined[-1][1] == size * stride:
            joined[-1] = (joined[-1][0] * size, stride)
        else:
            joined.append((size, stride))
    return tuple(joined)
