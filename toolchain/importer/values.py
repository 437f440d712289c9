"""What a tensor of a file is in the float graph: a map, or maps seen as a list of rows or columns.

ONNX has N, C, H, W, TFLite mostly N, H, W, C, and both move axes freely at the end of a network; the float graph has
H, W, C throughout. So a Reshape or Transpose makes no layer here: it changes how the same map is seen.
"""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from edgemeta.model.layers import Float32, Shape
from edgemeta.toolchain.importer.network import Order


@dataclass(frozen=True)
class Map:
    """[1, C, H, W]: the tensor itself."""

    tensor: str
    shape: Shape


@dataclass(frozen=True)
class Flat:
    """[1, C * H * W]: a map in the order C, H, W, or H, W, C; of one pixel both are the same and "chw" is written."""

    tensor: str
    shape: Shape
    order: Order = "chw"


@dataclass(frozen=True)
class Pixels:
    """[1, H, W, C]: a map with its channels last."""

    map: Map


@dataclass(frozen=True)
class Columns:
    """[1, C, P]: the pixels of maps with C channels each, row by row, one map after the other."""

    maps: tuple[Map, ...]


@dataclass(frozen=True)
class Rows:
    """[1, P, width]: the same with the channels last; a pixel of k * width channels gives k rows."""

    maps: tuple[Map, ...]
    width: int


@dataclass(frozen=True)
class Grouped:
    """[1, G, C / G, H, W], or [1, H, W, G, C / G] in the order "hwc", or with G and C / G exchanged.

    It is half of a channel shuffle.
    """

    map: Map
    groups: int
    order: Order = "chw"
    is_exchanged: bool = False


Axis: TypeAlias = tuple[tuple[int, int], ...]
"""Sides that one axis is made of, the outer ones first: how many elements, and the elements of the map between them."""


@dataclass(frozen=True)
class Axes:
    """A tensor of any rank, as tokens and heads have it: each axis is made of sides of the map, times a factor."""

    map: Map
    axes: tuple[Axis, ...]
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sides of the tensor."""
        return tuple(prod(size for size, _ in axis) for axis in self.axes)


@dataclass(frozen=True)
class Halves:
    """[parts, 1, C / parts, H, W]: the channels of a map in equal parts, of which each is taken by itself."""

    map: Map
    parts: int


@dataclass(frozen=True)
class Joined:
    """[1, elements]: flat maps one after the other, which a dense layer takes part by part."""

    parts: tuple[Flat, ...]


Value: TypeAlias = Map | Flat | Pixels | Columns | Rows | Grouped | Axes | Halves | Joined

AXES = {Map: {1: 2, 2: 0, 3: 1}, Pixels: {1: 0, 2: 1, 3: 2}}
"""Of a tensor's axis the axis of H, W, C, by how the map is seen."""


def flat(map_: Map, order: Order) -> Flat:
    """A map seen flat in an order of its axes."""
    return Flat(map_.tensor, map_.shape, "chw" if map_.shape[:2] == (1, 1) else order)


def seen(value: Value, tensors: dict[str, Float32]) -> Float32:
    """The tensor of the file that a value stands for. tensors: of the float graph, by name, [1, H, W, C]."""
    match value:
        case Map(tensor, _):
            return tensors[tensor].transpose(0, 3, 1, 2)
        case Flat(tensor, _, order):
            return (tensors[tensor] if order == "hwc" else tensors[tensor].transpose(0, 3, 1, 2)).reshape(1, -1)
        case Pixels(source):
            return tensors[source.tensor]
        case Rows(maps, width):
            return np.concatenate([tensors[each.tensor].reshape(1, -1, width) for each in maps], axis=1)
        case Columns(maps):
            rows = [tensors[one.tensor].reshape(1, -1, one.shape[2]) for one in maps]
            return np.concatenate(rows, axis=1).transpose(0, 2, 1)
        case Axes(source, axes, factor):
            parts = [part for axis in axes for part in axis]
            places = sorted(range(len(parts)), key=lambda place: -parts[place][1])
            split = tensors[source.tensor].reshape([parts[place][0] for place in places])
            return split.transpose(np.argsort(places)).reshape(value.shape) * np.float32(factor)
        case _:
            raise AssertionError(f"an output cannot be {value}")
