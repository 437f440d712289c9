"""Ranges from histograms, and the types for them."""

import numpy as np
import pytest

from edgemeta.toolchain.quantize.histogram import Histogram
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, choose_range, tensor_type


def histogram_of(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    histogram.add(values.astype(np.float32), float(values.min()), float(values.max()))
    return histogram


def normal(*outliers: float) -> np.ndarray:
    return np.append(np.random.default_rng(0).normal(0, 1, 200_000), outliers)


def square_error(values: np.ndarray, least: float, greatest: float) -> float:
    step = (greatest - least) / 255
    rounded = least + step * np.clip(np.floor((values - least) / step + 0.5), 0, 255)
    return float(np.square(rounded - values).mean())


def test_minmax_covers_everything() -> None:
    least, greatest = choose_range(histogram_of(normal(30, -9)), "minmax")
    assert (least, greatest) == (-9, 30)


def test_percentile_and_least_error_leave_outliers_out() -> None:
    values = normal(30)
    for rule, most in (("percentile", 5), ("mse", 25)):
        least, greatest = choose_range(histogram_of(values), rule)  # type: ignore[arg-type]
        assert -6 < least < -3
        assert 3 < greatest < most


@pytest.mark.gate("4 s: every range is tried")
def test_the_least_error_is_least() -> None:
    values = normal(9, -7, 8)
    least, greatest = choose_range(histogram_of(values), "mse")
    found = square_error(values, least, greatest)
    tried = [square_error(values, low, high) for low in np.linspace(-7, -2, 40) for high in np.linspace(2, 9, 40)]
    assert found < 1.02 * min(tried)


def test_the_range_before_a_function_is_that_of_the_least_error_after_it() -> None:
    values = np.random.default_rng(3).normal(-20, 15, 100_000)

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    least, greatest = choose_range(histogram_of(values), "mse", relu)
    assert least > 0.1 * values.min()  # far below 0, every value becomes 0
    plain = choose_range(histogram_of(values), "mse")

    def off(low: float, high: float) -> float:
        step = (high - low) / 255
        rounded = low + step * np.clip(np.floor((values - low) / step + 0.5), 0, 255)
        return float(np.square(relu(rounded) - relu(values)).mean())

    assert off(least, greatest) < 0.5 * off(*plain)


@pytest.mark.parametrize("rule", RANGE_RULES)
@pytest.mark.parametrize("values", [np.zeros(5), np.full(9, 3.0), np.full(9, -3.0), np.array([1e-30]), np.ones(1)])
def test_strange_tensors(rule: str, values: np.ndarray) -> None:
    least, greatest = choose_range(histogram_of(values), rule)  # type: ignore[arg-type]
    assert min(values.min(), 0) <= least <= 0 <= greatest <= max(values.max(), 0)
    kind = tensor_type((least, greatest), (1, 1, 1))
    assert kind.scale > 0
    assert kind.lo <= kind.zero_point <= kind.hi


def test_types() -> None:
    assert (tensor_type((0, 5.1), (1, 1, 1)).signed, tensor_type((0, 5.1), (1, 1, 1)).zero_point) == (False, 0)
    even = tensor_type((-1, 1), (1, 1, 1))
    assert (even.signed, even.zero_point) == (True, 0)
    assert even.scale * 127 >= 1
    lopsided = tensor_type((-0.28, 9.0), (1, 1, 1))
    assert (lopsided.signed, lopsided.zero_point) == (False, 8)
    assert (255 - lopsided.zero_point) * lopsided.scale == pytest.approx(9, abs=lopsided.scale)


@pytest.mark.parametrize(("excess", "signed"), [(1.05, True), (1.15, False)])
def test_a_symmetric_type_is_used_while_its_step_is_a_tenth_greater_at_most(excess: float, signed: bool) -> None:
    greatest = 127.0
    kind = tensor_type((greatest - 255 / excess, greatest), (1, 1, 1))
    assert kind.signed == signed
    assert (kind.zero_point == 0) == signed
