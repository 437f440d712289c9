"""Rounds float32 values to a grid by integer operations on their patterns: the definition that faster code must equal.

A finite value is M 2**e with M the integer of 24 bits (fewer for subnormals) in its pattern. The grid's step at the
value is 2**q, with q = max(first bit - mantissa, quantum). So M loses its last s = q - e bits: it is K steps and a
fraction of a step, F / 2**32. K grows by one where the rounding says so, and the result is K 2**q, exact in float32.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.simulate.grid import Grid

Rounding = Literal["nearest_even", "half_up", "towards_zero", "stochastic"]

_SIGN, _INFINITY, _HIDDEN = 0x8000_0000, 0x7F80_0000, 0x80_0000
_HALF = 1 << 31


def round_to_grid(
    x: NDArray[np.float32], grid: Grid, rounding: Rounding, words: NDArray[np.uint32] | None = None
) -> NDArray[np.float32]:
    """Round float32 values of any shape to the grid.

    rounding: "nearest_even" and "half_up" (floor(x + 1/2), also for negative x) differ in ties only. "stochastic" adds
    words / 2**32, uint32 of the shape of x, to the fraction and drops what is below one: a value is rounded up with the
    probability of its fraction. NaN stays NaN; a zero keeps its sign; "towards_zero" makes no infinity of a number.
    """
    patterns = x.view(np.uint32).astype(np.int64)
    magnitudes, negative = patterns & ~_SIGN, patterns >= _SIGN
    biased = np.maximum(magnitudes >> 23, 1)
    integers = np.where(magnitudes >= _HIDDEN, (magnitudes & (_HIDDEN - 1)) | _HIDDEN, magnitudes)
    quanta = np.maximum(biased - 127 - grid.mantissa, grid.quantum)
    dropped = np.maximum(quanta - (biased - 150), 0)
    steps = integers >> np.minimum(dropped, 63)
    steps += _rounds_up(_fraction(integers, dropped), steps, negative, rounding, words)
    finite = np.ldexp(steps.astype(np.float64), (biased - 150) + dropped)
    rounded = _limited(np.where(negative, -finite, finite), grid, rounding)
    special = np.where(magnitudes == _INFINITY, _infinities(negative, grid), np.nan)
    found = np.where(magnitudes < _INFINITY, rounded, special)
    return np.copysign(found, np.where(negative, -1.0, 1.0)).astype(np.float32)  # zeros


def _fraction(integers: NDArray[np.int64], dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    """The dropped bits of each integer in units of 2**-32 of the last kept one; what lies below is cut off."""
    upper = (integers << np.clip(32 - dropped, 0, 32)) & 0xFFFF_FFFF
    return np.where(dropped <= 32, upper, integers >> np.clip(dropped - 32, 0, 63))


def _rounds_up(
    fraction: NDArray[np.int64],
    steps: NDArray[np.int64],
    negative: NDArray[np.bool_],
    rounding: Rounding,
    words: NDArray[np.uint32] | None,
) -> NDArray[np.bool_]:
    """Whether a magnitude of `steps` and a fraction becomes one step greater."""
    up: NDArray[np.bool_]
    match rounding:
        case "nearest_even":
            up = (fraction > _HALF) | ((fraction == _HALF) & (steps % 2 == 1))
        case "half_up":
            up = (fraction > _HALF) | ((fraction == _HALF) & ~negative)
        case "towards_zero":
            up = np.zeros(fraction.shape, np.bool_)
        case "stochastic":
            assert words is not None, "stochastic rounding needs random words"
            up = fraction + words.astype(np.int64) >= 1 << 32
    return up


def _limited(values: NDArray[np.float64], grid: Grid, rounding: Rounding) -> NDArray[np.float64]:
    limited = np.clip(values, grid.lowest, grid.highest)
    if grid.beyond == "saturate" or rounding == "towards_zero":
        return limited
    beyond = np.copysign(np.inf, values) if grid.beyond == "infinity" else np.full_like(values, np.nan)
    return np.where(values == limited, values, beyond)


def _infinities(negative: NDArray[np.bool_], grid: Grid) -> NDArray[np.float64]:
    """What plus and minus infinity become."""
    match grid.beyond:
        case "saturate":
            return np.where(negative, grid.lowest, grid.highest)
        case "infinity":
            return np.where(negative, -np.inf, np.inf)
        case "nan":
            return np.full(negative.shape, np.nan)
