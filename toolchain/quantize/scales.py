"""From real scales to the integers of the model records."""

import math

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Multiplier, TensorType
from edgemeta.toolchain.errors import QuantizeError

INT32_MAX = 2**31 - 1
_GREATEST_FACTOR, _GREATEST_TERM = 2.0**30, 2**21


def multiplier_for(factors: NDArray[np.float64], lo: int, hi: int, name: str) -> Multiplier:
    """Requantization by real factors [C], each as multiplier / 2**shift with multiplier 2**30 .. 2**31 - 1.

    The relative error of a factor is at most 2**-31. A factor of 0 gives multiplier 0. A factor above 2**30 is
    taken as 2**30: an accumulator of 1 is then as far beyond lo and hi, of at most 8 bits. Raises QuantizeError for a
    factor that is negative or not finite.
    """
    multipliers, shifts = [], []
    for factor in factors.tolist():
        if not 0 <= factor < math.inf:
            raise QuantizeError(f"layer {name!r}: needs a rescaling by {factor:g}, expected a finite one from 0 on")
        mantissa, exponent = math.frexp(min(factor, _GREATEST_FACTOR))
        shift = 31 - exponent
        multiplier = round(mantissa * 2**31)
        if multiplier > INT32_MAX:
            multiplier, shift = multiplier // 2, shift - 1
        if shift > 62:
            multiplier, shift = round(factor * 2.0**62), 62
        multipliers.append(multiplier)
        shifts.append(shift)
    return Multiplier(np.array(multipliers, np.int32), np.array(shifts, np.uint8), lo, hi)


def add_factors(a: TensorType, b: TensorType, out: TensorType) -> tuple[tuple[int, int], int]:
    """Multipliers and shift of an addition: a.scale / out.scale and b.scale / out.scale, over one power of two.

    The shift is the greatest, at most 29, that keeps both multipliers within 2**21 and the sum within int32. Where even
    without a shift one is greater it is taken as 2**21: half a step of that input, by which it is rounded, is then more
    than all that the output represents.
    """
    ratios = (a.scale / out.scale, b.scale / out.scale)
    span = [max(abs(t.lo - t.zero_point), abs(t.hi - t.zero_point)) for t in (a, b)]
    for shift in range(29, -1, -1):
        pair = (round(ratios[0] * 2**shift), round(ratios[1] * 2**shift))
        reach = pair[0] * span[0] + pair[1] * span[1] + (1 << shift >> 1)
        if max(pair) <= _GREATEST_TERM and reach <= INT32_MAX:
            return pair, shift
    return (min(round(ratios[0]), _GREATEST_TERM), min(round(ratios[1]), _GREATEST_TERM)), 0


def int32_bias(bias: NDArray[np.float64], name: str) -> NDArray[np.int32]:
    """Bias [O] in accumulator units, rounded half up. Raises QuantizeError where it does not fit int32."""
    rounded = np.floor(bias + 0.5)
    if not np.isfinite(rounded).all() or np.abs(rounded).max(initial=0) > INT32_MAX:
        raise QuantizeError(f"layer {name!r}: a bias is {np.abs(rounded).max():g}, expected an int32")
    return rounded.astype(np.int32)
