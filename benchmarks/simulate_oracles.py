"""Rounding to number formats without PyTorch and without the simulator's library: what both are compared with.

Small formats by exact rationals over all of their bit patterns; others by NumPy in float64, which holds every step of
the way exactly; random words by Philox 4x32 in uint64.
"""

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.number_formats.formats import Block, FixedPoint, FlexFloat, Integer, PowerOfTwo
from edgemeta.toolchain.number_formats.grid import Grid

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Words = NDArray[np.uint32]
Small = FlexFloat | FixedPoint | PowerOfTwo

_FREE = float(np.finfo(np.float32).max)


def small_formats() -> Iterator[Small]:
    """Every float of up to 8 bits and two biases, and some fixed-point and power-of-two formats."""
    for exponent in range(1, 8):
        for mantissa in range(8 - exponent):
            for bias in (0, -3):
                yield FlexFloat(exponent=exponent, mantissa=mantissa, bias=bias)
    yield from (FixedPoint(bits=bits, fraction=fraction) for bits in (1, 2, 5, 8) for fraction in (-3, 0, 5, 12))
    yield from (PowerOfTwo(bits=bits) for bits in (2, 3, 4, 5))


def values_of(kind: Small) -> list[Fraction]:
    """All values of a format, from its bit patterns."""
    match kind:
        case FlexFloat(exponent=e, mantissa=m, bias=b):
            found = {Fraction(0)}
            for code in range(2**e):
                for part in range(2**m):
                    whole, power = (0, 1) if code == 0 else (1, code)
                    magnitude = (whole + Fraction(part, 2**m)) * Fraction(2) ** (power - (2 ** (e - 1) - 1) + b)
                    found |= {magnitude, -magnitude}
            return sorted(found)
        case FixedPoint(bits=bits, fraction=n):
            return [Fraction(q) / Fraction(2) ** n for q in range(-(2 ** (bits - 1)), 2 ** (bits - 1))]
        case PowerOfTwo(bits=bits):
            powers = [Fraction(1, 2**k) for k in range(2 ** (bits - 2))]
            return sorted({Fraction(0), *powers, *(-power for power in powers)})


def inputs_for(values: list[Fraction]) -> Floats:
    """Every value, every middle of two neighbours, the float32 numbers beside them, beyond both ends, random ones."""
    exact = np.array([float(value) for value in values], np.float32)
    middles = np.array([float((a + b) / 2) for a, b in pairwise(values)], np.float32)
    places = np.concatenate([exact, middles, exact * np.float32(1.9), exact * np.float32(300)])
    beside = [np.nextafter(places, np.float32(side)) for side in (-np.inf, np.inf)]
    rng = np.random.default_rng(1)
    spread = np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-30, 30, 300)).astype(np.float32)
    tiny = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-39, 2.0**-126, 3e38, -3e38], np.float32)
    return np.concatenate([places, *beside, spread, tiny])


def nearest(number: float, values: list[Fraction], floats: list[float], rounding: str, word: int) -> Fraction:
    """Round a number to the format's values, in exact rational numbers. floats: the same values as floats."""
    place = bisect_right(floats, number)
    if place == 0:
        return values[0]
    below = values[place - 1]
    if place == len(values) or floats[place - 1] == number:
        return below
    above, x = values[place], Fraction(number)
    share = (x - below) / (above - below)
    match rounding:
        case "towards_zero":
            return below if x > 0 else above
        case "stochastic":  # of the magnitude
            part = share if x > 0 else 1 - share
            up = (part * 2**32).__floor__() + word >= 2**32
            return above if up == (x > 0) else below
        case "half_up":
            return above if share >= Fraction(1, 2) else below
        case "nearest_even" if share == Fraction(1, 2):
            return below if below / (above - below) % 2 == 0 else above  # an even number of steps
        case "nearest_even":
            return above if share > Fraction(1, 2) else below
        case _:
            raise ValueError(rounding)


def round_in_doubles(
    x: Floats, grid: Grid, lowest: Doubles, highest: Doubles, rounding: str, words: Words
) -> tuple[Floats, NDArray[np.bool_]]:
    """Round x to a grid, within limits of each element or of all; also say which elements were not limited."""
    magnitude = np.abs(x.astype(np.float64))
    finite = np.isfinite(magnitude)
    _, exponent = np.frexp(np.where(finite, magnitude, 1.0))
    step = np.maximum(exponent - 1 - grid.mantissa, grid.quantum)
    steps = np.ldexp(np.where(finite, magnitude, 0.0), -step)
    whole = np.floor(steps)
    part, negative = steps - whole, np.signbit(x)
    match rounding:
        case "nearest_even":
            whole = np.rint(steps)
        case "half_up":
            whole += np.where(negative, part > 0.5, part >= 0.5)
        case "stochastic":
            whole += np.floor(np.ldexp(part, 32)).astype(np.uint64) + words.astype(np.uint64) >= 1 << 32
    result = np.where(finite, np.ldexp(whole, step), magnitude)
    limit = np.where(negative, -lowest, highest)
    over = result > limit
    beyond = {"saturate": limit, "infinity": np.inf, "nan": np.nan}[grid.beyond]
    beyond = np.where((rounding == "towards_zero") & finite, limit, beyond)
    return np.copysign(np.where(over, beyond, result), x).astype(np.float32), ~over


def scale_of(kind: Small | Integer | Block, x: Floats) -> tuple[Floats, float, float]:
    """The scale for a tensor [rows, channels], for one axis or more of it, and the limits of values divided by it."""
    finite = np.where(np.isfinite(x), x, 0)
    match kind:
        case Integer():
            axis = 0 if kind.per_channel else None
            least, greatest = finite.min(axis, initial=0), finite.max(axis, initial=0)
            low = 0 if not kind.signed else -(2 ** (kind.bits - 1)) + kind.symmetric
            high = 2 ** (kind.bits - kind.signed) - 1
            if kind.symmetric:
                return np.maximum(-least if kind.signed else 0, greatest) / np.float32(high), low, high
            scale = (greatest - least) / np.float32(high - low)
            zero_point = np.clip(np.floor(np.float32(low) - least / scale + np.float32(0.5)), low, high)
            return scale, float(low - zero_point), float(high - zero_point)
        case PowerOfTwo():
            return np.float32(2) ** np.floor(np.log2(np.abs(finite).max() / np.float64(1.5)) + 1), -1.0, 1.0
        case Block():
            padded = np.abs(np.pad(finite, ((0, 0), (0, -x.shape[1] % kind.size))))
            largest = padded.reshape(len(x), -1, kind.size).max(2)
            shared = _shared(kind.element.grid, largest)
            return np.repeat(shared, kind.size, 1)[:, : x.shape[1]], kind.grid.lowest, kind.grid.highest
        case FlexFloat(shared_exponent=True):
            return _unlimited(kind.grid, np.abs(finite).max()), kind.grid.lowest, kind.grid.highest
        case _:
            return np.float32(1), kind.grid.lowest, kind.grid.highest


def _unlimited(grid: Grid, largest: np.floating) -> Floats:
    """The least such power of two times which the greatest value is not less than the largest magnitude."""
    binades = Fraction(2) ** int(np.frexp(np.float64(largest))[1] - np.frexp(grid.highest)[1])
    is_limited = Fraction(float(largest)) > Fraction(grid.highest) * binades
    return _shared(grid, np.asarray(largest), int(is_limited))


def _shared(grid: Grid, largest: NDArray[np.floating], more: int = 0) -> Floats:
    """2**(exponent of the largest magnitude - of the greatest value + more), so great that float32 holds the grid."""
    exponents = np.frexp(np.where(largest > 0, largest, 2.0**-127).astype(np.float64))[1] - np.frexp(grid.highest)[1]
    least = -126 - min(grid.mantissa, 23) - grid.quantum
    return np.ldexp(np.float32(1), np.clip(exponents + more, max(least, -126), 127)).astype(np.float32)


def random_words(places: NDArray[np.uint64], seed: int, step: int, tensor: int) -> Words:
    """The random word of each place: word (i / 16) mod 4 of Philox's counter (i / 64) 16 + i mod 16."""
    mask, shift = np.uint64(0xFFFF_FFFF), np.uint64(32)
    number = places // 64 * 16 + places % 16
    counter = [number & mask, number >> shift, np.full_like(places, tensor), np.full_like(places, step)]
    keys = [seed & 0xFFFF_FFFF, seed >> 32]
    for _ in range(10):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (b >> shift) ^ counter[1] ^ np.uint64(keys[0]),
            b & mask,
            (a >> shift) ^ counter[3] ^ np.uint64(keys[1]),
            a & mask,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFF_FFFF, (keys[1] + 0xBB67AE85) & 0xFFFF_FFFF]
    return np.choose((places // 16 % 4).astype(np.int64), counter).astype(np.uint32)
