"""Which range of a tensor its integers cover: chosen from its histogram by one of three rules."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Shape, TensorType
from edgemeta.toolchain.quantize.histogram import Histogram

#: Least to greatest value, all but one in ten thousand values on each side, or the least mean square error.
RangeRule = Literal["minmax", "percentile", "mse"]
RANGE_RULES: tuple[RangeRule, ...] = ("minmax", "percentile", "mse")

Range = tuple[float, float]
"""Least and greatest real number, with 0 between or at one of them."""

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_LEVELS = 255
_OUTSIDE = 1e-4
_FRACTIONS = np.linspace(0.2, 1.0, 65)
_INPUT_FRACTIONS = np.geomspace(0.03, 1.0, 32)
_NEARLY_SYMMETRIC = 1.1


def choose_range(histogram: Histogram, rule: RangeRule, function: Function | None = None) -> Range:
    """The range of a tensor by a rule. function: what a lookup table computes from it, if nothing else reads it.

    "mse" minimizes the expected square error of rounding and clipping to 256 levels; with a function, the error of its
    result.
    """
    least, greatest = histogram.least, histogram.greatest
    if rule == "minmax" or least == greatest:
        return least, greatest
    if rule == "percentile":
        return _percentile(histogram)
    return _least_error(histogram) if function is None else _least_error_after(histogram, function)


def tensor_type(covered: Range, shape: Shape) -> TensorType:
    """The type of 8 bits for a range; 0 is exact.

    uint8 with zero point 0 if the range begins at 0, int8 with zero point 0 if it is nearly symmetric, otherwise uint8
    with another zero point.
    """
    least, greatest = covered
    if least == greatest:
        return TensorType(shape, signed=False)
    symmetric, step = max(-least / 128, greatest / 127), (greatest - least) / _LEVELS
    if least == 0:
        return TensorType(shape, signed=False, scale=greatest / _LEVELS)
    if symmetric <= _NEARLY_SYMMETRIC * step:
        return TensorType(shape, scale=symmetric)
    return TensorType(shape, signed=False, zero_point=int(np.floor(-least / step + 0.5)), scale=step)


def _percentile(histogram: Histogram) -> Range:
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    allowed = _OUTSIDE * histogram.total
    half = histogram.width / 2
    inside = np.flatnonzero(np.cumsum(counts) > allowed)
    least = min(0.0, centres[inside[0]] - half) if len(inside) else 0.0
    inside = np.flatnonzero(np.cumsum(counts[::-1]) > allowed)
    greatest = max(0.0, centres[::-1][inside[0]] + half) if len(inside) else 0.0
    least, greatest = max(least, histogram.least), min(greatest, histogram.greatest)
    return (float(least), float(greatest)) if greatest > least else (histogram.least, histogram.greatest)


def _least_error(histogram: Histogram) -> Range:
    """step**2 / 12 for every value inside, and the square distance of those outside, over a grid of both ends."""
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    lows, highs = histogram.least * _FRACTIONS, histogram.greatest * _FRACTIONS
    below = np.array([(counts * np.square(np.minimum(centres - low, 0))).sum() for low in lows])
    above = np.array([(counts * np.square(np.maximum(centres - high, 0))).sum() for high in highs])
    steps = (highs[None, :] - lows[:, None]) / _LEVELS
    error = below[:, None] + above[None, :] + counts.sum() * np.square(steps) / 12
    low, high = np.unravel_index(int(error.argmin()), error.shape)
    return float(lows[low]), float(highs[high])


def _least_error_after(histogram: Histogram, function: Function) -> Range:
    """The square error of the function's result, over a grid of both ends that reaches far inside."""
    filled = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[filled], histogram.counts[filled].astype(np.float64)
    wanted = function(centres)
    best, least_error = (histogram.least, histogram.greatest), np.inf
    lows = (histogram.least * _INPUT_FRACTIONS).tolist() if histogram.least < 0 else [0.0]
    highs = (histogram.greatest * _INPUT_FRACTIONS).tolist() if histogram.greatest > 0 else [0.0]
    for low in lows:
        for high in highs:
            step = (high - low) / _LEVELS
            found = function(low + step * np.arange(_LEVELS + 1, dtype=np.float64))
            column = np.clip(np.floor((centres - low) / step + 0.5), 0, _LEVELS).astype(np.int64)
            error = float((counts * np.square(found[column] - wanted)).sum())
            if error < least_error:
                best, least_error = (low, high), error
    return best
