"""Conversion of real scales to integers: accuracy and errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.fixedpoint import rounding_shift
from edgemeta.model.layers import TensorType
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.scales import add_factors, int32_bias, multiplier_for


@given(st.floats(2.0**-31, 2.0**30, exclude_max=True))
def test_multiplier_is_exact_to_31_bits(factor: float) -> None:
    found = multiplier_for(np.array([factor]), 0, 255, "c")
    multiplier, shift = int(found.multiplier[0]), int(found.shift[0])
    assert 2**30 <= multiplier < 2**31
    assert 0 <= shift <= 62
    assert abs(multiplier / 2.0**shift / factor - 1) <= 2.0**-31


def test_small_factors_and_zero() -> None:
    found = multiplier_for(np.array([2.0**-40, 0.0]), -128, 127, "c")
    assert found.shift.tolist()[0] == 62
    assert found.multiplier.tolist() == [2**22, 0]


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf")])
def test_invalid_factors(factor: float) -> None:
    with pytest.raises(QuantizeError, match="layer 'c': needs a rescaling by"):
        multiplier_for(np.array([factor]), 0, 1, "c")


@given(st.floats(1e-4, 10), st.floats(1e-4, 10), st.floats(1e-3, 10))
def test_addition_is_near_the_real_one(a: float, b: float, out: float) -> None:
    kinds = [TensorType((1, 1, 1), scale=s) for s in (a, b, out)]
    (first, second), shift = add_factors(*kinds)
    assert max(first, second) <= 2**21
    assert 0 <= shift <= 29
    worst = 128 * (first + second) + (1 << shift >> 1)
    assert worst < 2**31
    for x in (-128, -3, 127):
        for y in (-128, 5, 127):
            real = (a * x + b * y) / out
            assert abs((first * x + second * y) / 2**shift - real) <= 0.01 + abs(real) * 1e-3


@pytest.mark.parametrize("scales", [(1e9, 1.0, 1.0), (1.0, 1e30, 1.0), (1e9, 1e9, 1e-30)])
def test_of_an_input_far_coarser_than_the_sum_one_step_is_beyond_its_range(scales: tuple[float, ...]) -> None:
    first, second, out = (TensorType((1, 1, 1), scale=scale) for scale in scales)
    pair, shift = add_factors(first, second, out)
    assert shift == 0
    assert max(pair) == 2**21
    assert 255 * sum(pair) < 2**31


@given(st.floats(2.0**30, 1e300))
def test_a_great_factor_leaves_nothing_but_the_ends(factor: float) -> None:
    found = multiplier_for(np.array([factor]), -128, 127, "c")
    for accumulator in (-(2**31), -1, 0, 1, 2**31 - 1):
        product = int(rounding_shift(accumulator * int(found.multiplier[0]), int(found.shift[0])))
        assert min(max(product, -128), 127) == min(max(accumulator * factor, -128), 127)


def test_bias() -> None:
    assert int32_bias(np.array([0.5, -0.5, 2.4]), "c").tolist() == [1, 0, 2]
    with pytest.raises(QuantizeError, match="layer 'c': a bias is"):
        int32_bias(np.array([3e9]), "c")


def test_a_factor_of_all_31_bits_keeps_them() -> None:
    made = multiplier_for(np.array([(2**31 - 1) / 2**31]), -128, 127, "x")
    assert (made.multiplier.tolist(), made.shift.tolist()) == ([2**31 - 1], [31])


def test_a_factor_too_small_for_31_bits_has_the_greatest_shift() -> None:
    made = multiplier_for(np.array([1.5 * 2.0**-33]), -128, 127, "x")
    assert (made.multiplier.tolist(), made.shift.tolist()) == ([3 * 2**28], [62])


def test_the_greatest_bias() -> None:
    assert int32_bias(np.array([2.0**31 - 1]), "c").tolist() == [2**31 - 1]
    with pytest.raises(QuantizeError, match="a bias is"):
        int32_bias(np.array([2.0**31]), "c")


def test_an_addition_of_small_factors_has_the_greatest_shift() -> None:
    fine, coarse = TensorType((1, 1, 1), scale=2.0**-9), TensorType((1, 1, 1))
    assert add_factors(fine, fine, coarse) == ((2**20, 2**20), 29)
