"""Fixed-point arithmetic on integers: the definition that every backend equals bit for bit.

Qn is signed fixed point with n fraction bits: the integer q represents q / 2**n (Terakura et al., eqs. 8 to 10). Shifts
are arithmetic; rounding is half up, that is floor(x + 1/2), everywhere.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def quantize(real: ArrayLike, fraction_bits: int, bits: int = 8) -> NDArray[np.int64]:
    """Reals [...] to signed Qn [...]: clamp(floor(x * 2**n + 1/2)) to `bits` bits. Raises ValueError on NaN."""
    scaled = np.floor(np.asarray(real, np.float64) * 2.0**fraction_bits + 0.5)
    if np.isnan(scaled).any():
        raise ValueError("cannot quantize NaN")
    return np.clip(scaled, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype(np.int64)


def rounding_shift(value: ArrayLike, shift: ArrayLike) -> NDArray[np.int64]:
    """(value + 2**(shift-1)) >> shift in int64, arithmetic, half up; a shift of 0 returns the value.

    Exact for |value| < 2**62 and 0 <= shift <= 62; shapes broadcast.
    """
    value64, shift64 = np.asarray(value, np.int64), np.asarray(shift, np.int64)
    half = np.where(shift64 > 0, np.int64(1) << np.maximum(shift64 - 1, 0), np.int64(0))
    shifted: NDArray[np.int64] = (value64 + half) >> shift64
    return shifted


def saturate(value: NDArray[Any], lo: int, hi: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Return clamp(value, lo, hi) [...] as `dtype`, which must hold both bounds."""
    clamped: NDArray[Any] = np.clip(value, lo, hi).astype(dtype)
    return clamped
