"""What a layer that only moves elements takes from where, as numbers of its input's elements.

They are made by the layer's own `move`: a backend that takes them needs nothing of its own for a new layer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Layer, Moving, Shape


@dataclass(frozen=True, eq=False)
class Gather:
    """Element (y, x, c) of the output is element rows[y] + columns[x] + channels[c] of the input, in H, W, C order.

    rows [H'], columns [W'], channels [C']: int32, 0 and above; where rows[y] or columns[x] is -1 the zero point stands.
    The three lie at rows, columns and channels of the input that add up to those of their sum, without a carry.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    channels: NDArray[np.int32]


def gather_of(layer: Layer, source: Shape) -> Gather | None:
    """What a layer takes from its one input, of shape `source`; None if it computes, or moves in another way."""
    if not isinstance(layer, Moving) or len(layer.sources) != 1:
        return None
    elements: NDArray[np.int32] = np.arange(np.prod(source), dtype=np.int32).reshape(1, *source)
    index: NDArray[np.int32] = layer.move(elements, fill=-1)[0]
    taken = index[:, :, 0] >= 0
    if not taken.any():
        return None
    y, x = int(taken.any(axis=1).argmax()), int(taken.any(axis=0).argmax())
    channels = index[y, x] - index[y, x].min()
    columns = np.where(index[y, :, 0] < 0, -1, index[y, :, 0] - index[y, taken[y], 0].min())
    rows = np.where(index[:, x, 0] < 0, -1, index[:, x, 0] - columns[x] - channels[0])
    gather = Gather(rows, columns, channels)
    return gather if np.array_equal(index, _index(gather)) and _adds_up(gather, source) else None


def _index(gather: Gather) -> NDArray[np.int32]:
    """The element [H', W', C'] that each element is taken from, -1 for none."""
    index: NDArray[np.int32] = gather.rows[:, np.newaxis, np.newaxis] + gather.columns[:, np.newaxis] + gather.channels
    index[gather.rows < 0] = -1
    index[:, gather.columns < 0] = -1
    return index


def _adds_up(gather: Gather, source: Shape) -> bool:
    """No list goes below 0 but for -1, and the greatest row, column and channel of the three stay within the input."""
    lists = [gather.rows, gather.columns, gather.channels]
    if min(int(each.min()) for each in lists) < -1:
        return False
    greatest = [np.max(np.unravel_index(np.maximum(each, 0), source), axis=1) for each in lists]
    return bool((np.sum(greatest, axis=0) < source).all())
