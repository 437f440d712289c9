"""Operators that change the size of a map: paddings, repetitions, enlargements."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Pad, ResizeBilinear, Upsample, real
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, maps_of, with_maps
from edgemeta.toolchain.importer.elementwise import shifted
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.rearranging import numbers_of
from edgemeta.toolchain.importer.taking import mirrored, nearest, require_size, spread, taken, with_zero_channels
from edgemeta.toolchain.importer.values import AXES, Map, Value


def pad(build: Builder, node: Node) -> Value:
    """Pad, with numbers or by what the edges say; axes from opset 18 on."""
    amounts, fill, axes = (
        numbers_of(build, node, 1, "pads"),
        build.constant(node, 2),
        numbers_of(build, node, 3, "axes"),
    )
    value = float(node.attributes.get("value", 0.0)) if fill is None or not fill.size else float(fill.reshape(()))
    if amounts is None:
        raise UnsupportedError("its amounts are missing")
    if axes is not None:
        given, amounts = amounts, [0] * 8
        for number, axis in enumerate(axes):
            amounts[axis % 4], amounts[axis % 4 + 4] = given[number], given[number + len(axes)]
    return padded(build, node, amounts, value, node.attributes.get("mode", "constant"))


def padded(build: Builder, node: Node, amounts: list[int], value: float = 0.0, mode: str = "constant") -> Value:
    """A map and what is around it: before every axis, then behind every axis. value: of mode constant."""
    view, name = build.image(node), node.outputs[0]
    if len(amounts) != 8 or amounts[0] or amounts[4] or min(amounts) < 0:
        raise UnsupportedError(f"amounts {amounts}, expected those of channels, rows and columns, none below 0")
    pairs = [(0, 0)] * 3
    for axis, ours in AXES[type(view)].items():
        pairs[ours] = amounts[axis], amounts[axis + 4]
    require_size([side + sum(pair) for side, pair in zip(maps_of(view)[0].shape, pairs, strict=True)])
    if mode != "constant":
        return mirrored(build, view, name, pairs, mode)
    (top, bottom), (left, right), (before, behind) = pairs
    made = source = maps_of(view)[0]
    if value:
        made = shifted(build, made, f"{name}.less", -value)
    if before or behind:
        made = with_zero_channels(build, made, name, before, behind)
    if made is source or any((top, left, bottom, right)):
        made = build.add(Pad(name, made.tensor, padding=(top, left, bottom, right)))
    return with_maps(view, (shifted(build, made, name, value) if value else made,))


def tile(build: Builder, node: Node) -> Value:
    """Tile: a map several times, side by side."""
    view, repeats = build.image(node), [int(each) for each in build.required(node, 1)]
    source, places = maps_of(view)[0], [np.arange(side) for side in maps_of(view)[0].shape]
    if len(repeats) != 4 or repeats[0] != 1 or min(repeats) < 1:
        raise UnsupportedError(f"repeats {repeats}, expected those of channels, rows and columns")
    require_size([maps_of(view)[0].shape[ours] * repeats[axis] for axis, ours in AXES[type(view)].items()])
    for axis, ours in AXES[type(view)].items():
        places[ours] = np.tile(places[ours], repeats[axis])
    return with_maps(view, (taken(build, source, node.outputs[0], places),))


def expand(build: Builder, node: Node) -> Value:
    """Expand: rows, columns or channels of one element, repeated."""
    view, target = build.image(node), build.shape(node.outputs[0])
    source, shape = maps_of(view)[0], [0, 0, 0]
    if len(target) != 4 or target[0] != 1:
        raise UnsupportedError(f"a result of shape {target}, expected 1 image in the first axis")
    for axis, ours in AXES[type(view)].items():
        shape[ours] = target[axis]
    return with_maps(view, (spread(build, source, node.outputs[0], (shape[0], shape[1], shape[2])),))


_PART = 1e-3
"""Of an element, by which the product of a size and a scale of float32 may be beside a whole number."""


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
    given = build.constant(node, 1 if node.op == "Upsample" else 2)
    scales = [out / side for out, side in zip(size, source.shape[:2], strict=True)]
    if given is not None and given.size == 4:
        scales = [float(each) for each in given[2:]]
    if mode in ("linear", "bilinear"):
        for side, out, scale in zip(source.shape[:2], size, scales, strict=True):
            if abs(side * scale - out) > _PART and places != "align_corners":
                raise UnsupportedError(f"scales that give {side * scale:g} of {side} elements, expected a whole number")
        if places == "pytorch_half_pixel" and min(size) > 1:
            places = "half_pixel"
        if places not in ("half_pixel", "align_corners", "asymmetric"):
            raise UnsupportedError(f"coordinates {places}, expected half_pixel, align_corners or asymmetric")
        return build.add(ResizeBilinear(node.outputs[0], source.tensor, real(*size), coordinates=places))
    if mode != "nearest":
        raise UnsupportedError(f"mode {mode}, expected nearest or linear")
    rounding = "floor" if node.op == "Upsample" else node.attributes.get("nearest_mode", "round_prefer_floor")
    rows, columns = (
        nearest(side, out, scale, places, rounding)
        for side, out, scale in zip(source.shape[:2], size, scales, strict=True)
    )
    return enlarged(build, source, node.outputs[0], rows, columns)


def enlarged(build: Builder, source: Map, name: str, rows: NDArray[Any], columns: NDArray[Any]) -> Map:
    """The map of these rows [H'] and columns [W']; an upsample if each is repeated as often as the others."""
    factor = whole_factor(source, (len(rows), len(columns)))
    if factor is not None and all(
        np.array_equal(places, np.arange(len(places)) // each)
        for places, each in zip((rows, columns), factor, strict=True)
    ):
        return build.add(Upsample(name, source.tensor, factor=factor))
    return taken(build, source, name, (rows, columns, None))


def whole_factor(source: Map, size: tuple[int, int]) -> tuple[int, int] | None:
    """Whole factors by which a map is enlarged to a size, if that is what happens."""
    factor = (size[0] // source.shape[0], size[1] // source.shape[1])
    is_whole = (source.shape[0] * factor[0], source.shape[1] * factor[1]) == size and min(factor) >= 1
    return factor if is_whole else None
