"""Tables that are lines are found, and no others; clamps are folded in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.lowering.line import MAGIC, value_at
from edgemeta.kernels.lowering.requantization import fold_addition, fold_clamps, table_line
from edgemeta.model.fixedpoint import rounding_shift
from edgemeta.model.layers import Add, Clamp, Multiplier, ShiftTable, TensorType

INDEX = np.arange(-128, 128)


def entries(table: NDArray[np.int64]) -> list[int] | None:
    """The entries of a table, computed from its line."""
    line = table_line(table)
    if line is None:
        return None
    return [min(max(value_at(line, t, MAGIC), min(table[[0, -1]])), max(table[[0, -1]])) for t in INDEX.tolist()]


@given(st.integers(-3000, 3000), st.integers(-(10**6), 10**6), st.integers(0, 12), st.integers(-128, 127))
def test_every_clamped_integer_line_is_found(m: int, b: int, shift: int, lo: int) -> None:
    """clamp(round(t * m + b, s)): the tables that batch norm and ReLU make."""
    table = np.clip(rounding_shift(INDEX * m + b, shift), lo, 127)
    if np.abs(np.diff(table)).max() <= 2:  # steeper ones have no proof of existence, only of equality
        assert entries(table) == table.tolist()


@given(st.integers(1, 40), st.integers(0, 255), st.integers(0, 10**9))
def test_one_wrong_entry_is_detected(m: int, place: int, seed: int) -> None:
    table = np.clip(rounding_shift(INDEX * m, 5), -128, 127)
    table[place] += 1 if np.random.default_rng(seed).integers(2) else -1
    found = entries(table)
    assert found is None or found == table.tolist()


@given(st.lists(st.integers(-128, 127), min_size=256, max_size=256))
def test_a_line_of_a_table_equals_the_table(values: list[int]) -> None:
    table = np.sort(np.array(values))
    found = entries(table)
    assert found is None or found == table.tolist()


@given(st.integers(-128, 127), st.integers(-128, 127), st.integers(0, 10**9))
def test_clamps_are_folded(lo: int, hi: int, seed: int) -> None:
    lo, hi = min(lo, hi), max(lo, hi)
    kind = TensorType((1, 1, 1))
    clamp = Clamp("clamp", "x", kind, lo, hi)
    rng = np.random.default_rng(seed)
    values = rng.integers(-128, 128, 256)
    folded = fold_clamps(ShiftTable(np.array([5], np.uint8), values.astype(np.int8)[np.newaxis]), [clamp])
    assert isinstance(folded, ShiftTable)
    assert folded.table.dtype == np.int8
    np.testing.assert_array_equal(folded.table[0], np.clip(values, lo, hi))
    ends = np.sort(rng.integers(-128, 128, 2)).tolist()
    narrowed = fold_clamps(Multiplier(np.array([1], np.int32), np.array([0], np.uint8), ends[0], ends[1]), [clamp])
    assert isinstance(narrowed, Multiplier)
    np.testing.assert_array_equal(np.clip(np.clip(INDEX, *ends), lo, hi), np.clip(INDEX, narrowed.lo, narrowed.hi))


@pytest.mark.parametrize(("zero_point", "zero"), [(63, 2), (64, 0)])
def test_the_zero_point_of_an_addition_is_folded_where_the_sum_stays_within_int32(zero_point: int, zero: int) -> None:
    """2**21 (192 + 255 - zero_point) + 2**28 + 2 * 2**29 is 2**31 for 63, one too many."""
    types = {"a": TensorType((1, 1, 1), 8, False, 63), "b": TensorType((1, 1, 1), 8, False, zero_point)}
    add = Add(
        "add", ("a", "b"), TensorType((1, 1, 1), 8, True, 2), multipliers=(1 << 21, 1 << 21), shift=29, lo=-128, hi=127
    )
    assert fold_addition(add, 0, types).zero == zero
