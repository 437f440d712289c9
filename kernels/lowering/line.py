"""Requantization as one float32 multiply-add that is proved equal to the integer definition.

A requantization is a step function y(x) with at most 255 steps; T[k] is the least x with y >= k. The kernels compute

    u = fma(X, slope, addend),  X = base + x + offset,

where the integers offset and addend and the float slope = p / 2**q are chosen here. X and the product are exact, and u
lies at MAGIC + y with MAGIC = 1.5 * 2**23, where float32 represents integers only. So the single rounding of the
multiply-add is the rounding of the requantization, and the low bits of u are y. Neither y nor u decreases as x grows,
so they are equal for every x if u < MAGIC + k at T[k] - 1 and u >= MAGIC + k at T[k], for each k; this is checked in
exact integers. Beyond the first and last step u may leave the range of integers: clamping its bits as an int32, which
preserves the order of floats, still gives lo or hi.

A line needs a specific fractional part, B = p * (base + offset) + addend * 2**q in a window of a few 2**q / 255. The
offset, which costs nothing because it is added to the bias, is the least one that puts B there.

About one multiplier in a hundred has steps so close together that no slope of 24 bits passes between them. A fine line
holds the slope in two floats,

    v = fma(x, rest, offset), y = floor(fma(x, slope, v) rounded down),

whose floor equals that of the exact x * slope + v; it is proved in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAGIC = 3 << 22
"""1.5 * 2**23: float32 from 2**23 to 2**24 are the integers."""

MAGIC_BITS = 0x4B400000
"""The bits of float32(MAGIC): as an int32, MAGIC_BITS + y are the bits of float32(MAGIC + y)."""

_NEIGHBOURS = (0, 1, -1, 2, -2, 3, -3)
_MAX_FRACTION_BITS = 50
_EXACT = 1 << 24
"""Integers up to here are float32 values."""
_WITHIN_INT64 = 1 << 62


@dataclass(frozen=True)
class StepFunction:
    """A non-decreasing step function on x = least .. greatest: its value is k from T[k] on, and `first` below all T.

    thresholds: T[first + 1], T[first + 2], ... in order. multiple: the input of a line is multiple * x instead of x.
    """

    least: int
    greatest: int
    first: int
    thresholds: Sequence[int]
    multiple: int = 1

    def above(self) -> list[tuple[int, int]]:
        """Every (k, multiple of the least x in range where y >= k)."""
        steps = enumerate(self.thresholds, self.first + 1)
        return [(k, self.multiple * max(t, self.least)) for k, t in steps if t <= self.greatest]

    @property
    def constant(self) -> int:
        """The only value in range, if `above` or `below` has no step."""
        return max((k for k, _ in self.above()), default=self.first)

    def below(self) -> list[tuple[int, int]]:
        """Every (k, multiple of the greatest x in range where y < k)."""
        steps = enumerate(self.thresholds, self.first + 1)
        return [(k, self.multiple * min(t - 1, self.greatest)) for k, t in steps if t > self.least]


@dataclass(frozen=True)
class Line:
    """y = low bits of fma(base + x + offset, slope, addend)."""

    slope: np.float32
    addend: np.float32
    offset: int


@dataclass(frozen=True)
class FineLine:
    """y = floor(x * slope + v), v = fma(x, rest, offset)."""

    slope: np.float32
    rest: np.float32
    offset: np.float32


def find_line(steps: StepFunction, slope: float, base: int) -> Line | None:
    """The line near `slope` that equals the step function; None if no line with a few neighbouring floats does.

    base: MAGIC if X comes from adding integers to MAGIC_BITS, 0 if it comes from converting x + offset.
    """
    points = _Points.of(steps)
    if not len(points.above) or not len(points.below):
        return Line(np.float32(0), np.float32(MAGIC + steps.constant), 0)
    start = np.float32(slope)
    for ulps in _NEIGHBOURS:
        candidate = (start.view(np.int32) + np.int32(ulps)).view(np.float32)
        line = _fit(points, candidate, base)
        if line is not None:
            return line
    return None


@dataclass(frozen=True, eq=False)
class _Points:
    """Both sides of every step: the values k and the x where y >= k, and those where y < k; int64.

    The x are relative to `least_x`, the least of them; the greatest one is `span`.
    """

    above: NDArray[np.int64]
    above_x: NDArray[np.int64]
    below: NDArray[np.int64]
    below_x: NDArray[np.int64]
    least_x: int
    span: int

    @staticmethod
    def of(steps: StepFunction) -> "_Points":
        """As `StepFunction.above` and `below`; their values are below 2**11 in magnitude."""
        end = steps.greatest + 1
        firsts = np.array([min(max(t, steps.least), end) for t in steps.thresholds], np.int64)
        values = np.arange(steps.first + 1, steps.first + 1 + len(firsts))
        is_above, is_below = firsts < end, firsts > steps.least
        above_x, below_x = steps.multiple * firsts[is_above], steps.multiple * (firsts[is_below] - 1)
        least = min(above_x.min(initial=end * steps.multiple), below_x.min(initial=end * steps.multiple))
        above_x, below_x = above_x - least, below_x - least
        span = max(above_x.max(initial=0), below_x.max(initial=0))
        return _Points(values[is_above], above_x, values[is_below], below_x, int(least), int(span))


def _fit(points: _Points, slope: np.float32, base: int) -> Line | None:
    """Choose offset and addend for the slope p / 2**q, in exact integers.

    int64 suffices: p and the span are below 2**26, a value times 2**q below 2**61.
    """
    p, denominator = float(slope).as_integer_ratio() if np.isfinite(slope) else (0, 1)
    q = denominator.bit_length() - 1
    if p <= 0 or not 1 <= q <= _MAX_FRACTION_BITS:
        return None
    reach = 1 << 22 if base else _EXACT
    lowest, highest = -reach - points.least_x, reach - 1 - points.least_x - points.span
    if lowest > highest:
        return None
    # u >= k at x: p x + B >= (k - 1/2) 2**q; u < k likewise. B strictly between, so that rounding never meets a tie.
    least = int(((2 * points.above - 1 << q - 1) - p * points.above_x).max()) - p * points.least_x
    greatest = int(((2 * points.below - 1 << q - 1) - p * points.below_x).min()) - p * points.least_x
    for first in (max(lowest, 0), lowest):
        wanted = least + 1 - p * (base + first)
        steps_up = _first_in_window(p, 1 << q, wanted % (1 << q), (wanted + greatest - least - 2) % (1 << q))
        if greatest - least < 2 or steps_up is None or first + steps_up > highest:
            continue
        offset = first + steps_up
        fraction = (p * (base + offset) - least) % (1 << q)
        addend = MAGIC + (least + fraction - p * (base + offset) >> q)
        line = Line(slope, np.float32(addend), offset)
        if int(line.addend) == addend and _equals(line, points, base):
            return line
    return None


def _first_in_window(a: int, modulus: int, low: int, high: int) -> int | None:
    """Least n >= 0 with a * n mod modulus in low .. high (which wraps around if low > high), by Euclid's algorithm."""
    if low == 0 or low > high:
        return 0
    a %= modulus
    if a == 0:
        return None
    n = -(-low // a)
    if a * n <= high:
        return n
    turns = _first_in_window(modulus % a, a, -high % a, -low % a)
    return None if turns is None else -(-(low + modulus * turns) // a)


def find_fine_line(steps: StepFunction, multiplier: int, shift: int) -> FineLine | None:
    """The fine line of slope multiplier / 2**shift >= 0, if it equals the step function, else None."""
    above, below = steps.above(), steps.below()
    if not above or not below:
        return FineLine(np.float32(0), np.float32(0), np.float32(steps.constant))
    if max(abs(x) for _, x in (*above, *below)) > _EXACT:
        return None
    slope = _float32_below(multiplier, shift)  # below: with a negative rest the line might decrease
    rest = np.float32(multiplier / 2.0**shift - float(slope))
    least = max((k << shift) - multiplier * x for k, x in above)
    greatest = min((k << shift) - multiplier * x for k, x in below)
    line = FineLine(slope, rest, np.float32((least + greatest) / 2.0 ** (shift + 1)))
    values = _fine_values(line, [x for _, x in (*above, *below)])
    is_equal = all(value >= k for value, (k, _) in zip(values, above, strict=False)) and all(
        value < k for value, (k, _) in zip(values[len(above) :], below, strict=True)
    )
    return line if is_equal else None


def _float32_below(multiplier: int, shift: int) -> np.float32:
    """The greatest float32 up to multiplier / 2**shift."""
    surplus = max(multiplier.bit_length() - 24, 0)
    return np.float32((multiplier >> surplus << surplus) / 2.0**shift)


def _fine_values(line: FineLine, xs: Sequence[int]) -> list[int]:
    """The exact results of the kernel at integers |x| <= 2**24, computed in units of 2**-bits."""
    ratios = [float(part).as_integer_ratio() for part in (line.slope, line.rest, line.offset)]
    bits = max(denominator.bit_length() - 1 for _, denominator in ratios)
    slope, rest, offset = (numerator * ((1 << bits) // denominator) for numerator, denominator in ratios)
    return [slope * x + _rounded_to_24_bits(rest * x + offset) >> bits for x in xs]


def _rounded_to_24_bits(value: int) -> int:
    """Rounded as float32: half to even."""
    surplus = abs(value).bit_length() - 24
    if surplus <= 0:
        return value
    whole, rest, half = value >> surplus, value & (1 << surplus) - 1, 1 << surplus - 1
    return whole + (rest > half or (rest == half and whole % 2 == 1)) << surplus


def _equals(line: Line, points: _Points, base: int) -> bool:
    start = base + points.least_x
    above, below = (_values_at(line, xs, start, points.span) for xs in (points.above_x, points.below_x))
    return bool((above >= points.above).all() and (below < points.below).all())


def _values_at(line: Line, xs: NDArray[np.int64], start: int, span: int) -> NDArray[np.int64]:
    """`value_at` of x = 0 .. span from `start` on: in int64 if all of it fits, without MAGIC, a multiple of 2."""
    p, denominator = float(line.slope).as_integer_ratio()
    q = denominator.bit_length() - 1
    first = p * (start + line.offset) + (int(line.addend) - MAGIC << q)
    if abs(first) + p * span >= _WITHIN_INT64:
        return np.array([value_at(line, x, start) for x in xs.tolist()], np.int64)
    total = first + p * xs
    whole, rest = total >> q, total & denominator - 1
    rounds_up: NDArray[np.bool_] = (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
    return whole + rounds_up.astype(np.int64)


def value_at(line: Line, x: int, base: int) -> int:
    """The y that the kernel computes, in exact integers, for x where base + x + offset is exact in float32."""
    p, denominator = float(line.slope).as_integer_ratio()
    total = p * (base + x + line.offset) + int(line.addend) * denominator
    whole, rest = divmod(total, denominator)
    rounds_up = 2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1)
    return whole + rounds_up - MAGIC
