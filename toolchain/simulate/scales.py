"""From the range of a tensor to the scale and the limits with which it is rounded."""

import math
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

from edgemeta.toolchain.number_formats.formats import Block, FixedPoint, FlexFloat, Integer, PowerOfTwo
from edgemeta.toolchain.number_formats.grid import FLOAT32_GREATEST, FLOAT32_LEAST, FLOAT32_MANTISSA, Grid

Scalable: TypeAlias = FlexFloat | FixedPoint | PowerOfTwo | Integer
"""Formats with a scale for a tensor or a channel."""

_INTEGERS = Grid(24, 0, -(2.0**24), 2.0**24)
_ONES = (1 << FLOAT32_MANTISSA) - 1
"""The greatest mantissa of a float32."""


@dataclass(frozen=True)
class Scales:
    """scale: float32 [1] or [channels]. lowest, highest: limits of values divided by it. zero_point: of integers."""

    scale: Tensor
    lowest: Tensor
    highest: Tensor
    zero_point: Tensor


def grid_of(kind: Scalable | Block) -> Grid:
    """The grid to which values divided by their scale are rounded."""
    return _INTEGERS if isinstance(kind, Integer) else kind.grid


def needs_range(kind: Scalable) -> bool:
    """Whether the scale depends on the tensor."""
    return isinstance(kind, Integer | PowerOfTwo) or (isinstance(kind, FlexFloat) and kind.shared_exponent)


def scales(kind: Scalable, ends: Tensor) -> Scales:
    """The scales for values within `ends`, float32 [2] or [channels, 2]: the least and the greatest."""
    ends = ends.reshape(-1, 2)
    least, greatest = ends[:, 0].clamp(max=0), ends[:, 1].clamp(min=0)
    if isinstance(kind, Integer):
        return _of_integers(kind, least, greatest)
    grid = kind.grid
    scale = torch.ones_like(greatest)
    if needs_range(kind):
        scale = _power_of_two(_exponent(grid, torch.maximum(-least, greatest), _greatest_mantissa(kind)))
    lowest, highest = (torch.full_like(scale, limit) for limit in (grid.lowest, grid.highest))
    return Scales(scale, lowest, highest, torch.zeros_like(scale))


@cache
def constant_scales(kind: Scalable, device: torch.device) -> Scales:
    """The scales of a format that needs no range: the same at every call."""
    return scales(kind, torch.zeros(1, 2, device=device))


def block_scales(kind: Block, blocks: Tensor) -> Scales:
    """The scales for blocks of channels; blocks: float32 [outer, channels, inner]. scale: [outer, blocks, inner].

    2**(exponent of the block's largest finite magnitude - exponent of the element's greatest value), as OCP has it: a
    magnitude beyond the greatest value of that binade is limited.
    """
    outer, channels, inner = blocks.shape
    magnitudes = torch.where(blocks.isfinite(), blocks.abs(), 0.0)
    padded = torch.nn.functional.pad(magnitudes, (0, 0, 0, -channels % kind.size))
    largest = padded.reshape(outer, -1, kind.size, inner).amax(2)
    grid = kind.grid
    scale = _power_of_two(_exponent(kind.element.grid, largest, _ONES))
    lowest, highest = (scale.new_full((1,), limit) for limit in (grid.lowest, grid.highest))
    return Scales(scale, lowest, highest, scale.new_zeros(1))


def _of_integers(kind: Integer, least: Tensor, greatest: Tensor) -> Scales:
    """(greatest - least) / (2**bits - 1) for a step, the zero point so that 0 is exact; symmetric: zero point 0."""
    if kind.symmetric:
        scale = torch.maximum(-least if kind.signed else least, greatest) / kind.greatest
        zero_point = torch.zeros_like(scale)
    else:
        scale = (greatest - least) / (kind.greatest - kind.least)
        zero_point = torch.floor(kind.least - least / scale + 0.5).clamp(kind.least, kind.greatest)
    usable = scale >= torch.finfo(torch.float32).tiny
    scale, zero_point = torch.where(usable, scale, 1.0), torch.where(usable, zero_point, 0.0).clamp(min=kind.least)
    return Scales(scale, kind.least - zero_point, kind.greatest - zero_point, zero_point)


def _greatest_mantissa(kind: Scalable) -> int:
    """The mantissa, as of a float32, up to which the largest magnitude of a tensor stays in the greatest binade.

    Of a float that of its greatest value, so nothing is limited: limited gradients would not sum to what they did,
    those of a softmax not to 0. Of powers of two the last one below 1.5: floor(log2(4 / 3 x)).
    """
    if isinstance(kind, PowerOfTwo):
        return (1 << FLOAT32_MANTISSA - 1) - 1
    fraction = 2.0 * math.frexp(grid_of(kind).highest)[0] - 1.0
    return int(fraction * (1 << FLOAT32_MANTISSA))


def _exponent(grid: Grid, magnitude: Tensor, greatest_mantissa: int) -> Tensor:
    """The exponent that is shared, int64: the largest magnitude's less the greatest of the grid.

    One more where the magnitude's mantissa, as of a float32, is beyond the greatest one.
    """
    pattern = magnitude.view(torch.int32).to(torch.int64) + (_ONES - greatest_mantissa)
    least = FLOAT32_LEAST - min(grid.mantissa, FLOAT32_MANTISSA) - grid.quantum
    own = math.frexp(grid.highest)[1] - 1
    return ((pattern >> FLOAT32_MANTISSA) - 127 - own).clamp(max(least, FLOAT32_LEAST), FLOAT32_GREATEST)


def _power_of_two(exponent: Tensor) -> Tensor:
    return ((exponent + 127) << FLOAT32_MANTISSA).to(torch.int32).view(torch.float32)
