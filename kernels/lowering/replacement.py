"""What replaces layers where the integers stay the same: tables of layers of one element, convolutions of whole maps.

Space to depth, then a convolution, is one convolution of the map that the phases are taken from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.lowering.gather import gather_of
from edgemeta.model.graph import Model
from edgemeta.model.layers import Clamp, Concat, Conv, Layer, Lookup, Pair, Rescale, Shape, TensorType


def has_table(layer: Layer, source: TensorType) -> bool:
    """Whether a layer is a table: a clamp, a lookup, or a rescaling that is the same for all channels."""
    return isinstance(layer, Clamp | Lookup) or (isinstance(layer, Rescale) and len(_tables(layer, source)) == 1)


def table_of_all(layers: Sequence[Layer], source: TensorType) -> NDArray[np.int64]:
    """The table of layers that each have one and read each other, the first a tensor of type `source`.

    What they make of the 256 integers of its dtype, the least first: int64 [1, 256], or [C, 256] by channel.
    """
    table = _every(source).astype(np.int64)[np.newaxis]
    for layer in layers:
        next_ = _tables(layer, source)
        rows = max(len(table), len(next_))
        columns = np.broadcast_to(table - int(np.iinfo(source.dtype).min), (rows, 256))
        table, source = np.take_along_axis(np.broadcast_to(next_, (rows, 256)), columns, axis=1), layer.output
    return table[:1] if (table == table[:1]).all() else table


def _tables(layer: Layer, source: TensorType) -> NDArray[np.int64]:
    """What a layer of one element makes of each integer: int64 [C, 256], or [1, 256] if that is so for all channels."""
    if isinstance(layer, Lookup):
        return layer.entries.astype(np.int64)
    images = np.broadcast_to(_every(source)[:, np.newaxis], (1, 1, 256, source.shape[2]))
    results: NDArray[np.int64] = layer.integers([images], [source])[0, 0].astype(np.int64).T
    return results[:1] if (results == results[:1]).all() else results


def _every(source: TensorType) -> NDArray[Any]:
    """The 256 integers of a dtype, the least first."""
    least = int(np.iinfo(source.dtype).min)
    return np.arange(least, least + 256, dtype=source.dtype)


@dataclass(frozen=True, eq=False)
class _Phase:
    """The elements from (top, left) on by steps, of these channels."""

    step: Pair
    top: int
    left: int
    channels: NDArray[np.int64]


def without_phases(model: Model) -> Model:
    """The model with such convolutions replaced; their weights are arrays of integers, int64 [O, KH, KW, C]."""
    inside: set[str] = set()
    layers: list[Layer] = []
    for layer in model.layers:
        phases = _phases_of(model, layer) if isinstance(layer, Conv) else {}
        if phases and isinstance(layer, Conv):
            inside.update((layer.input, *phases))
            layer = _of_whole(model, layer, phases)
        layers.append(layer)
    return replace(model, layers=tuple(layer for layer in layers if layer.name not in inside)) if inside else model


def _phases_of(model: Model, conv: Conv) -> dict[str, _Phase]:
    """By name the phases of one map that the input of a convolution consists of, and that nothing else reads."""
    joined = model.by_name.get(conv.input)
    if not isinstance(joined, Concat) or conv.groups != 1 or conv.dilation != (1, 1) or model.readers[joined.name] != 1:
        return {}
    parts = [model.by_name.get(name) for name in joined.inputs]
    if any(part is None or model.readers[part.name] != 1 for part in parts):
        return {}
    found = {part.name: _phase_of(part, model.types[part.sources[0]].shape) for part in parts if part is not None}
    phases = {name: phase for name, phase in found.items() if phase is not None}
    is_one_map = len({part.sources for part in parts if part is not None}) == 1
    return phases if is_one_map and len(phases) == len(parts) else {}


def _of_whole(model: Model, conv: Conv, phases: dict[str, _Phase]) -> Conv:
    """The convolution of the map itself: the tap (ky, kx) of a phase is (ky * down + top, kx * across + left)."""
    (source,) = {model.by_name[name].sources[0] for name in phases}
    down, across = next(iter(phases.values())).step
    weights = conv.coded.decode()
    outputs, rows, columns, _ = weights.shape
    large = np.zeros((outputs, rows * down, columns * across, model.types[source].shape[2]), np.int64)
    ends = np.cumsum([len(phase.channels) for phase in phases.values()])
    for phase, part in zip(phases.values(), np.split(weights, ends[:-1], axis=3), strict=True):
        for at, channel in enumerate(phase.channels.tolist()):
            large[:, phase.top :: down, phase.left :: across, channel] += part[..., at]
    top, left, bottom, right = conv.padding
    stride = conv.stride[0] * down, conv.stride[1] * across
    padding = top * down, left * across, bottom * down, right * across
    integers: Any = large
    return replace(conv, input=source, weights=integers, stride=stride, padding=padding)


def _phase_of(layer: Layer, source: Shape) -> _Phase | None:
    """What a layer takes of a map [H, W, C], if that is each row and column that steps above 1 reach."""
    gather = gather_of(layer, source)
    height, width, channels = source
    down, across = height // layer.output.shape[0], width // layer.output.shape[1]
    if gather is None or down * across <= 1 or (len(gather.rows) * down, len(gather.columns) * across) != source[:2]:
        return None
    first = int(gather.rows[0])
    rows = first + np.arange(len(gather.rows)) * down * width * channels
    columns = np.arange(len(gather.columns)) * across * channels
    if first < 0 or not (np.array_equal(gather.rows, rows) and np.array_equal(gather.columns, columns)):
        return None
    top, left, channel = np.unravel_index(first, source)
    taken = channel + gather.channels.astype(np.int64)
    return _Phase((down, across), int(top), int(left), taken) if taken.max() < channels else None
