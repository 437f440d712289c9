"""Lines in float32 against the integers of requantization, evaluated as IEEE 754 says, by fractions."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.kernels.lowering.line import (
    MAGIC,
    MAGIC_BITS,
    FineLine,
    Line,
    StepFunction,
    _values_at,
    find_fine_line,
    find_line,
    value_at,
)
from edgemeta.kernels.lowering.requantization import multiplier_step_function
from edgemeta.model.fixedpoint import rounding_shift

multipliers = st.one_of(
    st.integers(2**30, 2**31 - 1), st.integers(0, 2**31 - 1), st.sampled_from([1, 3, 5, 2**20, 2**30])
)
shifts = st.integers(0, 62)
clamps = st.sampled_from([(-128, 127), (0, 255), (-128, -128), (-5, 6), (0, 15)])


def exact(value: np.float32) -> Fraction:
    return Fraction(float(value))


def float32(value: Fraction) -> Fraction:
    """Round to nearest, ties to even, for magnitudes within float32's normal range."""
    if value == 0:
        return value
    exponent = math.floor(math.log2(abs(value.numerator))) - math.floor(math.log2(value.denominator))
    for place in (exponent + 1, exponent, exponent - 1):
        if abs(value) >= Fraction(2) ** place:
            ulp = Fraction(2) ** (place - 23)
            return round(value / ulp) * ulp
    raise AssertionError(f"no exponent of {value}")


def bits_of(value: Fraction) -> int:
    return int(np.float32(float(value)).view(np.int32))


def on_line(line: Line, x: int, base: int, lo: int, hi: int) -> int:
    """What the device computes: bits, one multiply-add, a clamp of bits."""
    start = (
        Fraction(float(np.int32(MAGIC_BITS + x + line.offset).view(np.float32))) if base else Fraction(x + line.offset)
    )
    u = float32(float32(start) * exact(line.slope) + exact(line.addend))
    return min(max(bits_of(u), MAGIC_BITS + lo), MAGIC_BITS + hi) - MAGIC_BITS


def on_fine_line(line: FineLine, x: int, lo: int, hi: int) -> int:
    rest = float32(x * exact(line.rest) + exact(line.offset))
    return min(max(math.floor(x * exact(line.slope) + rest), lo), hi)


def requantized(x: int, multiplier: int, shift: int, zero: int, lo: int, hi: int) -> int:
    return min(max(zero + int(rounding_shift(x * multiplier, shift)), lo), hi)


def probes(draw: st.DataObject, least: int, greatest: int, thresholds: list[int]) -> list[int]:
    """Both sides of every step, the ends, and points between."""
    near = [x + d for x in thresholds[:: max(1, len(thresholds) // 40)] for d in (-1, 0) if least <= x + d <= greatest]
    return [least, greatest, *near, *draw.draw(st.lists(st.integers(least, greatest), max_size=20))]


@given(st.data(), multipliers, shifts, clamps, st.integers(1, 2**31 - 1), st.integers(-(2**20), 2**20))
def test_lines_equal_the_integers(
    data: st.DataObject, multiplier: int, shift: int, clamp: tuple[int, int], spread: int, middle: int
) -> None:
    lo, hi = clamp
    zero = data.draw(st.integers(lo, hi))
    least, greatest = max(middle - spread, -(2**31)), min(middle + spread, 2**31 - 1)
    steps = multiplier_step_function(multiplier, shift, zero, clamp, (least, greatest))
    xs = probes(data, least, greatest, list(steps.thresholds))
    expected = [requantized(x, multiplier, shift, zero, lo, hi) for x in xs]
    fine = find_fine_line(steps, multiplier, shift)
    if fine is not None:
        assert [on_fine_line(fine, x, lo, hi) for x in xs if abs(x) <= 2**24] == [
            y for x, y in zip(xs, expected, strict=True) if abs(x) <= 2**24
        ]
    for base, multiple in ((MAGIC, 1), (0, 1), (MAGIC, 9)):
        line = find_line(replace(steps, multiple=multiple), multiplier / 2.0**shift / multiple, base)
        if line is not None:
            # LINE is only used where the bits stay those of positive, finite floats.
            given = [(multiple * x, y) for x, y in zip(xs, expected, strict=True)]
            reach = [(x, y) for x, y in given if 0 < MAGIC_BITS + x + line.offset < 0x7F800000]
            assert [on_line(line, x, base, lo, hi) for x, _ in reach] == [y for _, y in reach]


def test_usual_multipliers_have_lines() -> None:
    """Multipliers as calibration gives them: nearly all pass with one slope, the others with two floats."""
    rng = np.random.default_rng(5)
    count, single, fine = 300, 0, 0
    for _ in range(count):
        multiplier, shift = int(rng.integers(2**30, 2**31)), int(rng.integers(36, 43))
        steps = multiplier_step_function(multiplier, shift, 0, (0, 255), (-3_000_000, 3_000_000))
        has_line = find_line(steps, multiplier / 2.0**shift, MAGIC) is not None
        single += has_line
        fine += has_line or find_fine_line(steps, multiplier, shift) is not None
    assert single >= 0.9 * count
    assert fine == count


@pytest.mark.parametrize(
    ("least", "greatest", "y"), [(-50, 40, 7), (10**6, 10**6 + 9, 20), (-(10**6), -(10**6) + 9, -10)]
)
def test_a_constant_in_range_is_a_line(least: int, greatest: int, y: int) -> None:
    steps = multiplier_step_function(2**30, 40, 7, (-10, 20), (least, greatest))
    line, fine = find_line(steps, 2.0**-10, MAGIC), find_fine_line(steps, 2**30, 40)
    assert line is not None
    assert fine is not None
    for x in (least, greatest):
        assert on_line(line, x, MAGIC, -10, 20) == on_fine_line(fine, x, -10, 20) == y


def test_ties_round_up() -> None:
    steps = multiplier_step_function(1, 1, 0, (-128, 127), (-1000, 1000))
    line = find_line(steps, 0.5, MAGIC)
    assert line is not None
    assert [on_line(line, x, MAGIC, -128, 127) for x in (-3, -2, -1, 0, 1, 2, 3)] == [-1, -1, 0, 0, 1, 1, 2]


@given(multipliers, st.integers(20, 50), st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**24))
def test_many_points_at_once_have_the_values_of_each(multiplier: int, shift: int, least: int, width: int) -> None:
    """Wherever the range lies: what does not fit in int64 is computed in Python's integers."""
    steps = multiplier_step_function(multiplier, shift, 3, (-128, 127), (least, least + width))
    line = find_line(steps, multiplier / 2.0**shift, MAGIC)
    if line is None or line.slope == 0:
        return
    xs = np.array([x - least for _, x in (*steps.above(), *steps.below())], np.int64)
    for offset in (line.offset, line.offset + (1 << 40)):
        moved = replace(line, offset=offset)
        found = _values_at(moved, xs, MAGIC + least, width).tolist()
        assert found == [value_at(moved, least + x, MAGIC) for x in xs.tolist()]


@pytest.mark.parametrize(("slope", "threshold"), [(0.375, 1), (0.375, 3), (0.4375, 1), (0.4375, 2)])
def test_a_line_meets_no_tie_and_has_the_least_offset(slope: float, threshold: int) -> None:
    """One step, from 0 to 1: with the wanted slope itself, by the least offset that keeps 1/2 between its sides."""
    line = find_line(StepFunction(-8, 8, 0, [threshold]), slope, 0)
    assert line is not None
    assert line.slope == slope
    assert [value_at(line, x, 0) for x in (threshold - 1, threshold)] == [0, 1]

    def fits(offset: int) -> bool:
        below, above = (Fraction(slope) * (x + offset) for x in (threshold - 1, threshold))
        return any(below + whole < Fraction(1, 2) < above + whole for whole in range(-9, 10))

    assert line.offset == next(offset for offset in range(16) if fits(offset))
