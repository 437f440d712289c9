"""Rounding beside exact rationals, and beside `ml_dtypes` where it has the format."""

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.simulate_oracles import inputs_for, nearest, small_formats, values_of
from edgemeta.toolchain.number_formats.formats import E4M3, PRESETS, FixedPoint, FlexFloat, PowerOfTwo
from edgemeta.toolchain.number_formats.grid import Grid

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.number_formats import rounding as definition  # noqa: E402
from edgemeta.toolchain.number_formats.rounding import Rounding  # noqa: E402

ROUNDINGS: tuple[Rounding, ...] = ("nearest_even", "half_up", "towards_zero", "stochastic")


def round_to_grid(
    x: NDArray[np.float32], grid: Grid, rounding: Rounding, words: NDArray[np.uint32] | None = None
) -> NDArray[np.float32]:
    drawn = None if words is None else torch.from_numpy(words.astype(np.int64))
    return definition.round_to_grid(torch.from_numpy(x), grid, rounding, drawn).numpy()


@pytest.mark.gate("9 s: 80 formats in rational numbers")
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_small_format_rounds_as_exact_rationals_do(rounding: Rounding) -> None:
    rng = np.random.default_rng(2)
    for kind in small_formats():
        values = values_of(kind)
        floats = [float(value) for value in values]
        x = inputs_for(values)
        words = rng.integers(0, 2**32, len(x), np.uint64).astype(np.uint32)
        found = round_to_grid(x, kind.grid, rounding, words)
        for value, word, result in zip(x.tolist(), words.tolist(), found.tolist(), strict=True):
            expected = nearest(value, values, floats, rounding, word)
            assert Fraction(result) == expected, (kind, rounding, value, word)


@pytest.mark.parametrize(
    "kind",
    [FlexFloat(exponent=4, mantissa=0), FlexFloat(exponent=3, mantissa=0, bias=-3), PRESETS["power_of_two_5"]],
    ids=["e4m0", "e3m0 with a bias", "power of two"],
)
def test_a_tie_without_mantissa_bits_becomes_the_greater_power(kind: FlexFloat | PowerOfTwo) -> None:
    """As IEEE 754-2019 rounds to one digit; halfway between 0 and the least power it becomes 0."""
    powers = [value for value in values_of(kind) if value > 0]
    ties = [(a + b) / 2 for a, b in pairwise([Fraction(0), *powers])]
    wanted = [Fraction(0), *powers[1:]]
    for sign in (1, -1):
        found = round_to_grid(np.array([float(sign * tie) for tie in ties], np.float32), kind.grid, "nearest_even")
        assert [Fraction(value) for value in found.tolist()] == [sign * value for value in wanted]
        beside = np.nextafter(np.array([float(sign * tie) for tie in ties], np.float32), np.float32(0))
        found = round_to_grid(beside, kind.grid, "nearest_even")
        assert [Fraction(value) for value in found.tolist()] == [sign * value for value in [Fraction(0), *powers[:-1]]]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (PRESETS["bfloat16"], ml_dtypes.bfloat16),
        (PRESETS["float16"], np.float16),
        (FlexFloat(exponent=5, mantissa=2, specials="ieee", overflow="special"), ml_dtypes.float8_e5m2),
        (FlexFloat(exponent=4, mantissa=3, specials="nan", overflow="special"), ml_dtypes.float8_e4m3fn),
        (FlexFloat(exponent=4, mantissa=3, specials="ieee", overflow="special"), ml_dtypes.float8_e4m3),
        (FlexFloat(exponent=3, mantissa=4, specials="ieee", overflow="special"), ml_dtypes.float8_e3m4),
        (FlexFloat(exponent=3, mantissa=2), ml_dtypes.float6_e3m2fn),
        (FlexFloat(exponent=2, mantissa=3), ml_dtypes.float6_e2m3fn),
        (FlexFloat(exponent=2, mantissa=1), ml_dtypes.float4_e2m1fn),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nearest_even_is_that_of_ml_dtypes(kind: FlexFloat, dtype: type) -> None:
    """On random patterns of all magnitudes and on special ones; NaN where it has NaN."""
    rng = np.random.default_rng(3)
    random = rng.integers(0, 2**32, 400_000, np.uint64).astype(np.uint32).view(np.float32)
    near = np.ldexp(rng.normal(size=400_000), rng.integers(-20, 20, 400_000)).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)
    x = np.concatenate([random, near, special])
    if kind.specials == "none":
        x = x[np.isfinite(x)]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    found = round_to_grid(x, kind.grid, "nearest_even")
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_nan_and_infinity() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    for rounding in ROUNDINGS:
        words = np.zeros(3, np.uint32)
        np.testing.assert_array_equal(round_to_grid(x, E4M3.grid, rounding, words), np.float32([np.nan, 448, -448]))
    special = FlexFloat(exponent=4, mantissa=3, specials="nan", overflow="special").grid
    assert np.isnan(round_to_grid(x, special, "nearest_even")).all()
    np.testing.assert_array_equal(round_to_grid(x, PRESETS["bfloat16"].grid, "nearest_even"), x)  # type: ignore[union-attr]
    great = np.array([3.4e38, -3.4e38], np.float32)
    kept = round_to_grid(great, PRESETS["float16"].grid, "towards_zero")  # type: ignore[union-attr]
    np.testing.assert_array_equal(kept, np.float32([65504, -65504]))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 2**32 - 1))
def test_rounding_again_changes_nothing(value: float, word: int) -> None:
    x, words = np.array([value], np.float32), np.array([word], np.uint32)
    for grid in (E4M3.grid, FixedPoint(bits=8, fraction=5).grid, Grid(7, -133, -(2.0**120), 2.0**120)):
        for rounding in ROUNDINGS:
            once = round_to_grid(x, grid, rounding, words)
            assert round_to_grid(once, grid, rounding, words).tolist() == once.tolist()


def test_stochastic_rounding_is_right_on_average() -> None:
    """1 / 8 of a step is added as often as it is random: within five standard deviations."""
    grid, count = FixedPoint(bits=8, fraction=0).grid, 1_000_000
    words = np.random.default_rng(4).integers(0, 2**32, count, np.uint64).astype(np.uint32)
    for value in (0.125, -0.125, 3.5, -3.875, 1e-3):
        found = round_to_grid(np.full(count, value, np.float32), grid, "stochastic", words)
        share = abs(value) % 1
        assert abs(found.mean(dtype=np.float64) - value) < 5 * (share * (1 - share) / count) ** 0.5 + 1e-7
