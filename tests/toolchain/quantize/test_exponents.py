"""Exponents of power-of-two weights: against plain rational arithmetic and a search over all of them."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgemeta.model.float_file import load_float_model
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.zoo import find
from edgemeta.toolchain.quantize.exponents import least_exponents, magnitudes, nearest

ROWS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 12)),
    elements=st.floats(-4, 4, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-40),
)


def powers(bits: int, least: int) -> list[Fraction]:
    return [Fraction(0), *(Fraction(2) ** (least + k) for k in range(2 ** (bits - 2)))]


def square_error(row: Any, bits: int, least: int) -> Fraction:
    distances = (min(abs(abs(Fraction(float(w))) - value) for value in powers(bits, least)) for w in row)
    return sum((each**2 for each in distances), Fraction(0))


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
@given(rows=ROWS)
def test_max_is_the_formula_of_inq(bits: int, rows: Any) -> None:
    for row, least in zip(rows, least_exponents(rows.astype(np.float64), bits, "max"), strict=True):
        bound = Fraction(float(np.abs(row).max()) or 1.0) * 4 / 3
        n1 = int(least) - 1 + 2 ** (bits - 2)
        assert Fraction(2) ** n1 <= bound < Fraction(2) ** (n1 + 1)


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
@given(rows=ROWS)
def test_mse_has_the_least_error_of_those_from_the_largest_down(bits: int, rows: Any) -> None:
    first = least_exponents(rows.astype(np.float64), bits, "max")
    found = least_exponents(rows.astype(np.float64), bits, "mse")
    for row, most, least in zip(rows, first.tolist(), found.tolist(), strict=True):
        errors = {each: square_error(row, bits, each) for each in range(most - 4, most + 1)}
        assert float(errors[least]) <= float(min(errors.values())) * (1 + 1e-12)


def test_one_large_weight_does_not_take_the_values_from_all_others() -> None:
    row = np.array([[1.0, *np.full(1000, 0.1)]])
    assert least_exponents(row, 3, "max").tolist() == [-1]  # 0.5 and 1: all but one weight become 0
    assert least_exponents(row, 3, "mse").tolist() == [-3]  # 0.125 and 0.25


def test_equal_errors_take_the_greatest_exponents() -> None:
    assert least_exponents(np.zeros((1, 4)), 5, "mse").tolist() == [-7]


def test_trained_layers_have_the_same_exponents_with_five_bits_and_others_with_three(repository: Path) -> None:
    """What decision 66 says: 5 bits cover the weights either way, 3 bits do not."""
    for network in ("resnet8-cifar10-float", str(repository / "benchmarks/models/resnet20-cifar10-float.safetensors")):
        layers = [each for each in load_float_model(find(network)).layers if isinstance(each, Conv | Dense)]
        rows = [layer.weights.reshape(1, -1).astype(np.float64) for layer in layers]
        for bits, differ in ((5, 0), (3, len(rows))):
            found = [least_exponents(row, bits, "max") != least_exponents(row, bits, "mse") for row in rows]
            assert sum(map(bool, found)) == differ


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
@given(rows=ROWS)
def test_nearest_takes_the_greater_value_at_a_tie(bits: int, rows: Any) -> None:
    wide = rows.astype(np.float64)
    least = least_exponents(wide, bits, "mse")
    for row, bottom, found in zip(wide, least.tolist(), nearest(wide, bits, least), strict=True):
        values = powers(bits, bottom)
        assert [Fraction(float(v)) for v in magnitudes(bits) * 2.0**bottom] == values
        for weight, index in zip(row.tolist(), found.tolist(), strict=True):
            distances = [abs(abs(Fraction(weight)) - value) for value in values]
            assert distances[index] == min(distances)
            assert all(each > distances[index] for each in distances[index + 1 :])


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
def test_the_least_square_error_may_be_four_exponents_lower(bits: int) -> None:
    """Many weights at the least power of those four exponents lower, and one at 1."""
    greatest = -4
    rows = np.array([[1.0, *[2.0**greatest] * 10_000]])
    (least,) = least_exponents(rows, bits, "mse") - (1 - 2 ** (bits - 2))
    lowest = range(0, -5, -1)
    errors = [square_error_of(rows, bits, n1) for n1 in lowest]
    assert least == lowest[int(np.argmin(errors))]
    if bits == 2:
        assert least == greatest


def square_error_of(rows: Any, bits: int, n1: int) -> float:
    values = np.array([0.0, *(2.0 ** (n1 - k) for k in range(2 ** (bits - 2)))])
    return float((np.abs(rows[..., None] - values).min(-1) ** 2).sum())
