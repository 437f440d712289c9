"""The primitives against exact fractions."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.fixedpoint import quantize, rounding_shift, saturate

HALF = Fraction(1, 2)


@given(st.integers(-(2**61), 2**61), st.integers(0, 62))
def test_rounding_shift_is_half_up(value: int, shift: int) -> None:
    assert int(rounding_shift(value, shift)) == floor(Fraction(value, 2**shift) + HALF)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 62))
def test_products_of_accumulator_and_multiplier_fit_in_int64(accumulator: int, multiplier: int, shift: int) -> None:
    product = np.int64(accumulator) * np.int64(multiplier)
    assert int(rounding_shift(product, shift)) == floor(Fraction(accumulator * multiplier, 2**shift) + HALF)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 31))
def test_the_form_without_widening_is_equal(value: int, shift: int) -> None:
    assert int(rounding_shift(value, shift)) == ((value >> (shift - 1)) + 1) >> 1


def test_shifts_broadcast() -> None:
    assert rounding_shift([[5, 5], [-5, -5]], [0, 1]).tolist() == [[5, 3], [-5, -2]]


@given(st.integers(-(2**40), 2**40), st.integers(-4, 12), st.integers(1, 16))
def test_quantize_is_half_up_and_clamped(numerator: int, fraction_bits: int, bits: int) -> None:
    real = numerator * 2.0**-20
    exact = floor(Fraction(numerator, 2**20) * Fraction(2) ** fraction_bits + HALF)
    assert int(quantize(real, fraction_bits, bits)) == min(max(exact, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1)


def test_infinities_saturate_and_nan_is_refused() -> None:
    assert quantize([np.inf, -np.inf], 3).tolist() == [127, -128]
    with pytest.raises(ValueError, match="NaN"):
        quantize([0.0, np.nan], 3)


def test_saturate_gives_the_dtype() -> None:
    result = saturate(np.array([-300, 0, 300]), -128, 127, np.int8)
    assert result.dtype == np.int8
    assert result.tolist() == [-128, 0, 127]
