"""Constants that a TFLite file stores sparsely: only the numbers that are not 0, and where they are.

Each axis of the tensor, and of the blocks that it may be split into, is a level: dense, all of its places one after the
other, or sparse (compressed rows), a list of places for each place of the level before.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DENSE = 0
_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


def dense(schema: Any, sparsity: Any, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """All numbers of a constant; values [n]: those that are stored. None where the record does not fit the shape."""
    order, blocks = ([int(each) for each in np.atleast_1d(part)] for part in _orders(sparsity))
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or sparsity.DimMetadataLength() != len(order):
        return None
    place = np.zeros(1, np.int64)
    found = [np.zeros(1, np.int64) for _ in order]
    for level, axis in enumerate(order):
        record = sparsity.DimMetadata(level)
        if record.Format() == _DENSE:
            size = record.DenseSize()
            if not size > 0 or len(place) * size > prod(shape):
                return None
            source = np.repeat(np.arange(len(place)), size)
            at = np.tile(np.arange(size), len(place))
            place = place[source] * size + at
        else:
            starts, places = (_vector(schema, record, name) for name in ("ArraySegments", "ArrayIndices"))
            if len(starts) <= place.max(initial=0) + 1 or (np.diff(starts) < 0).any():
                return None
            if starts[0] < 0 or starts[-1] > len(places):
                return None
            counts = starts[place + 1] - starts[place]
            if counts.sum() > prod(shape):
                return None
            source = np.repeat(np.arange(len(place)), counts)
            before = np.repeat(np.cumsum(counts) - counts, counts)
            place = starts[place][source] + np.arange(len(source)) - before
            at = places[place]
        found = [each[source] for each in found]
        found[axis] = at
    for number, axis in enumerate(blocks):
        if not 0 <= axis < rank:
            return None
        size = sparsity.DimMetadata(order.index(rank + number)).DenseSize()
        found[axis] = found[axis] * size + found[rank + number]
    fits = all((each >= 0).all() and (each < side).all() for each, side in zip(found, shape, strict=False))
    if not fits or place.max(initial=0) >= len(values):
        return None
    whole = np.zeros(shape, values.dtype)
    whole[tuple(found[:rank])] = values[place]
    return whole


def _orders(sparsity: Any) -> tuple[Any, Any]:
    order = sparsity.TraversalOrderAsNumpy() if sparsity.TraversalOrderLength() else []
    return order, sparsity.BlockMapAsNumpy() if sparsity.BlockMapLength() else []


def _vector(schema: Any, record: Any, name: str) -> NDArray[np.int64]:
    """A list of numbers of a level, [] where there is none."""
    kind, table = _VECTORS.get(getattr(record, f"{name}Type")()), getattr(record, name)()
    if kind is None or table is None:
        return np.zeros(0, np.int64)
    vector = getattr(schema, kind)()
    vector.Init(table.Bytes, table.Pos)
    return vector.ValuesAsNumpy().astype(np.int64) if vector.ValuesLength() else np.zeros(0, np.int64)
