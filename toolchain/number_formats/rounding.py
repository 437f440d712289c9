"""Rounds float32 tensors to a grid by integer operations on their patterns: the definition that faster code must equal.

A finite value is M 2**e with M the integer of 24 bits (fewer for subnormals) in its pattern. The grid's step at the
value is 2**q, with q = max(first bit - mantissa, quantum). So M loses its last s = q - e bits: it is K steps and a
fraction of a step, F / 2**32. K grows by one where the rounding says so, and the result is K 2**q, exact in float32.
"""

from typing import Literal

import torch
from torch import Tensor

from edgemeta.toolchain.number_formats.grid import Grid

Rounding = Literal["nearest_even", "half_up", "towards_zero", "stochastic"]

_SIGN, _INFINITY, _HIDDEN = 0x8000_0000, 0x7F80_0000, 0x80_0000
_HALF, _MASK = 1 << 31, 0xFFFF_FFFF


def round_to_grid(x: Tensor, grid: Grid, rounding: Rounding, words: Tensor | None = None) -> Tensor:
    """Round float32 values of any shape to the grid.

    rounding: "nearest_even" and "half_up" (floor(x + 1/2), also for negative x) differ in ties only. Without mantissa
    bits a number is one step, an odd number of them, so "nearest_even" makes its ties the greater power. "stochastic"
    adds words / 2**32, int64 0 .. 2**32 - 1 of the shape of x, to the fraction and drops what is below one: a value is
    rounded up with the probability of its fraction. NaN stays NaN, and every result has the sign of its x;
    "towards_zero" makes no infinity of a number.
    """
    patterns = x.view(torch.int32).to(torch.int64) & _MASK
    magnitudes, negative = patterns & ~_SIGN, patterns >= _SIGN
    biased = (magnitudes >> 23).clamp(min=1)
    integers = torch.where(magnitudes >= _HIDDEN, (magnitudes & (_HIDDEN - 1)) | _HIDDEN, magnitudes)
    quanta = (biased - 127 - grid.mantissa).clamp(min=grid.quantum)
    dropped = (quanta - (biased - 150)).clamp(min=0)
    steps = integers >> dropped.clamp(max=63)
    steps = steps + _rounds_up(_fraction(integers, dropped), steps, negative, rounding, words)
    finite = steps.to(torch.float64) * _power_of_two((biased - 150) + dropped)
    lowest, highest = abs(grid.lowest), abs(grid.highest)
    limits = torch.where(negative, lowest, highest).to(torch.float64)
    beyond = _beyond(limits, grid)
    number = magnitudes < _INFINITY
    over = limits if rounding == "towards_zero" else beyond
    found = torch.where(number, torch.where(finite > limits, over, finite), beyond)
    found = torch.where(magnitudes > _INFINITY, torch.nan, found).to(torch.float32)
    return torch.where(negative, -found, found)


def _power_of_two(exponents: Tensor) -> Tensor:
    """2**exponents, float64, from -1022 to 1023: as a pattern, since a GPU's `pow` need not be exact."""
    return (exponents + 1023 << 52).view(torch.float64)


def _fraction(integers: Tensor, dropped: Tensor) -> Tensor:
    """The dropped bits of each integer in units of 2**-32 of the last kept one; what lies below is cut off."""
    upper = (integers << (32 - dropped).clamp(0, 32)) & _MASK
    return torch.where(dropped <= 32, upper, integers >> (dropped - 32).clamp(0, 63))


def _rounds_up(fraction: Tensor, steps: Tensor, negative: Tensor, rounding: Rounding, words: Tensor | None) -> Tensor:
    """Whether a magnitude of `steps` and a fraction becomes one step greater."""
    match rounding:
        case "nearest_even":
            return (fraction > _HALF) | ((fraction == _HALF) & (steps % 2 == 1))
        case "half_up":
            return (fraction > _HALF) | ((fraction == _HALF) & ~negative)
        case "towards_zero":
            return torch.zeros_like(negative)
        case "stochastic":
            assert words is not None, "stochastic rounding needs random words"
            return fraction + words > _MASK


def _beyond(limits: Tensor, grid: Grid) -> Tensor:
    """What magnitudes beyond their limits become."""
    match grid.beyond:
        case "saturate":
            return limits
        case "infinity":
            return torch.full_like(limits, torch.inf)
        case "nan":
            return torch.full_like(limits, torch.nan)
