"""Operators that take chosen rows, columns and channels of a map: gathers, mirrored edges, nearest neighbours."""

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Concat, Pad, Pair, Shape, Slice, Take
from edgemeta.model.layers.operator import MAX_SIDE
from edgemeta.toolchain.importer.builder import MAX_ELEMENTS, Builder, UnsupportedError, maps_of, with_maps
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.values import AXES, Halves, Map, Pixels, Value

_MOST_ZEROS = 64
"""Channels of zeros beside each of a map's: their parts are as many layers."""

Places = Sequence[NDArray[Any] | None]
"""For rows, columns and channels the places [count] that are taken, in order; None for all of them."""


def taken(build: Builder, source: Map, name: str, places: Places) -> Map:
    """The elements [H', W', C'] at these places, as a layer."""
    rows, columns, channels = (
        np.arange(side, dtype=np.int32) if each is None else np.asarray(each, np.int32)
        for side, each in zip(source.shape, places, strict=True)
    )
    before = build.layers.get(source.tensor)
    if isinstance(before, Take) and build.quantization_of(source.tensor) is None:
        rows, columns, channels = before.rows[rows], before.columns[columns], before.channels[channels]
        source = build.map_of(before.input)
    return build.add(Take(name, source.tensor, rows=rows, columns=columns, channels=channels))


def require_size(shape: Sequence[int]) -> None:
    """Raise UnsupportedError for H, W, C that no tensor may have, before anything of that size is made."""
    if max(shape) > MAX_SIDE or prod(shape) > MAX_ELEMENTS:
        raise UnsupportedError(
            f"a result of {tuple(shape)} (H, W, C), expected at most {MAX_SIDE} on a side and {MAX_ELEMENTS} elements"
        )


def along(ours: int, places: NDArray[Any]) -> Places:
    """Places [count] along one axis of H, W, C."""
    return [places if axis == ours else None for axis in range(3)]


def spread(build: Builder, source: Map, name: str, shape: Shape) -> Map:
    """A map whose sides of 1 are repeated to a shape. Raises UnsupportedError for other sides that differ."""
    if source.shape == shape:
        return source
    if any(side not in (1, wanted) for side, wanted in zip(source.shape, shape, strict=True)):
        raise UnsupportedError(
            f"tensors of sizes {source.shape} and {shape} (H, W, C), expected equal ones, or ones of 1"
        )
    require_size(shape)
    repeated = [None if side == wanted else np.zeros(wanted) for side, wanted in zip(source.shape, shape, strict=True)]
    return taken(build, source, name, repeated)


def gather(build: Builder, node: Node) -> Value:
    """Gather by constant numbers: the channels, rows or columns in another order, or some of them."""
    value, numbers = build.value(node), build.required(node, 1)
    if isinstance(value, Halves) and not numbers.ndim and node.attributes.get("axis", 0) == 0:
        size = value.map.shape[2] // value.parts
        at = int(numbers) % value.parts * size
        height, width, _ = value.map.shape
        return build.add(Slice(node.outputs[0], value.map.tensor, start=(0, 0, at), stop=(height, width, at + size)))
    view = build.image(node)
    source, ours = maps_of(view)[0], AXES[type(view)].get(node.attributes.get("axis", 0) % 4)
    if numbers.ndim != 1 or ours is None:
        raise UnsupportedError(f"numbers of shape {numbers.shape}, expected a list along channels, rows or columns")
    side = source.shape[ours]
    if numbers.min() < -side or numbers.max() >= side:
        raise UnsupportedError(f"numbers {numbers.min()} .. {numbers.max()} of {side}")
    return with_maps(view, (taken(build, source, node.outputs[0], along(ours, numbers % side)),))


def mirrored(build: Builder, view: Map | Pixels, name: str, amounts: Sequence[Pair], mode: str) -> Value:
    """A map continued beyond its edges. amounts: before and behind rows, columns and channels; mode: as np.pad."""
    source, kinds = maps_of(view)[0], {"reflect": 1, "symmetric": 0, "edge": None, "wrap": 0}
    if mode not in kinds:
        raise UnsupportedError(f"mode {mode}, expected constant, reflect, symmetric, edge or wrap")
    less = kinds[mode]
    if any(less is not None and max(pair) > side - less for pair, side in zip(amounts, source.shape, strict=True)):
        raise UnsupportedError(f"amounts {list(amounts)} in mode {mode} for a map of shape {source.shape}")
    places = [
        np.pad(np.arange(side), pair, mode=mode)  # type: ignore[call-overload]
        for pair, side in zip(amounts, source.shape, strict=True)
    ]
    return with_maps(view, (taken(build, source, name, places),))


def with_zero_channels(build: Builder, source: Map, name: str, before: int, behind: int) -> Map:
    """A map with channels of zeros: parts of the rows that a padding makes, joined to it."""
    height, width, channels = source.shape
    if before + behind > _MOST_ZEROS * channels:
        raise UnsupportedError(
            f"{before + behind} channels of zeros beside {channels}, expected {_MOST_ZEROS} times at most"
        )
    padded = build.add(Pad(f"{name}.zeros", source.tensor, padding=(height, 0, 0, 0)))
    names: dict[str, list[str]] = {}
    for place, count in (("before", before), ("behind", behind)):
        names[place] = []
        for at in range(0, count, channels):
            stop = (height, width, min(channels, count - at))
            part = build.add(Slice(f"{name}.{place}", padded.tensor, start=(0, 0, 0), stop=stop))
            names[place].append(part.tensor)
    return build.add(Concat(name, (*names["before"], source.tensor, *names["behind"])))


Coordinates = Literal["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


def nearest(side: int, size: int, scale: float, coordinates: str, rounding: str) -> NDArray[np.int64]:
    """[size]: the place among `side` elements that each takes, as ONNX's Resize defines it, in float32 as there."""
    require_size((size, 1, 1))
    at, one = np.arange(size, dtype=np.float32), np.float32(1)
    match coordinates:
        case "half_pixel":
            place = (at + one / 2) / np.float32(scale) - one / 2
        case "pytorch_half_pixel":
            place = (at + one / 2) / np.float32(scale) - one / 2 if size > 1 else 0 * at
        case "align_corners":
            place = at * np.float32(side - 1) / np.float32(size - 1) if size > 1 else 0 * at
        case "asymmetric":
            place = at / np.float32(scale)
        case _:
            raise UnsupportedError(f"coordinates {coordinates}, expected half_pixel, align_corners or asymmetric")
    match rounding:
        case "floor":
            whole = np.floor(place)
        case "ceil":
            whole = np.ceil(place)
        case "round_prefer_floor":
            whole = np.ceil(place - one / 2)
        case "round_prefer_ceil":
            whole = np.floor(place + one / 2)
        case _:
            raise UnsupportedError(f"rounding {rounding}, expected floor, ceil or round_prefer_floor")
    limited: NDArray[np.int64] = np.clip(whole, 0, side - 1).astype(np.int64)
    return limited
