"""Weights in the order in which the paper's kernels read them ("depth-first", shuffled by Algorithm 1)."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.winograd import F2, transform_weights

_LEAST_LANES, WARP = 8, 32

_Value = TypeVar("_Value", np.int32, np.float32)
Packed = NDArray[np.int8] | NDArray[np.int16]


@dataclass(frozen=True)
class Padded:
    """Sizes of a tiled kernel; padding has weight 0.

    lanes: filters of one group, a power of two and at least 8, so that warps process complete groups; it divides
    filters, and either of channels and lanes divides the other.
    """

    channels: int
    filters: int
    lanes: int


def padded_sizes(channels: int, filters: int, most_lanes: int = WARP) -> Padded:
    """The least valid sizes for a layer."""
    lanes = min(max(_power_of_two(filters), _LEAST_LANES), most_lanes)
    in_memory = _power_of_two(channels) if channels < lanes else -(-channels // lanes) * lanes
    return Padded(in_memory, -(-filters // lanes) * lanes, lanes)


def transformed(weights: NDArray[np.int32], padded: Padded) -> NDArray[np.int16]:
    """4 G g G^T of int32 [O, 3, 3, C], shuffled: int16 [16, groups, channels * lanes]."""
    values = transform_weights(weights, F2)  # [O, C, 4, 4]
    return shuffled(values.transpose(2, 3, 1, 0).reshape(16, *values.shape[1::-1]), padded).astype(np.int16)


def by_tap(weights: NDArray[np.int32], padded: Padded) -> Packed:
    """Int32 [O, 3, 3, C], shuffled: [9, groups, channels * lanes], int8 if they fit."""
    outputs, _, _, channels = weights.shape
    return narrow(shuffled(weights.transpose(1, 2, 3, 0).reshape(9, channels, outputs), padded))


def by_map(weights: NDArray[np.int32], channels: int) -> NDArray[np.int32]:
    """Int32 [O, KH, KW, C] with the channels padded."""
    return np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, channels - weights.shape[3])))


def narrow(array: NDArray[np.int32]) -> Packed:
    """As int8 if the values fit, else int16."""
    fits = array.size == 0 or (array.min() >= -128 and array.max() <= 127)
    return array.astype(np.int8) if fits else array.astype(np.int16)


def shuffled(values: NDArray[_Value], padded: Padded) -> NDArray[_Value]:
    """[P, C, O] to Algorithm 1's order in every group of lanes filters: [P, groups, channels * lanes].

    Weight i belongs to channel i % channels and filter (i % lanes + i // max(channels, lanes)) % lanes.
    """
    places, channels, outputs = values.shape
    padding = ((0, 0), (0, padded.channels - channels), (0, padded.filters - outputs))
    groups = np.pad(values, padding).reshape(places, padded.channels, -1, padded.lanes)
    i = np.arange(padded.channels * padded.lanes)
    channel = i % padded.channels
    lane = (i % padded.lanes + i // max(padded.channels, padded.lanes)) % padded.lanes
    return np.ascontiguousarray(groups[:, channel, :, lane].transpose(1, 2, 0))


def _power_of_two(size: int) -> int:
    """The least power of two that is not below size."""
    return 1 << (size - 1).bit_length()
