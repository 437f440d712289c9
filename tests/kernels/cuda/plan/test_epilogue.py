"""Which form a requantization gets, and the defines of an addition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.epilogue import Epilogue, Form, addition_defines, make_epilogue
from edgemeta.kernels.cuda.plan.kernel import Tensors
from edgemeta.kernels.lowering.requantization import Accumulators
from edgemeta.model.fixedpoint import rounding_shift
from edgemeta.model.layers import Add, Multiplier, ShiftTable, TensorType

INDEX = np.arange(-128, 128)


def forms(requantize: Multiplier | ShiftTable, reach: int, scale_bits: int = 0) -> Form:
    channels = max(len(requantize.shift), 1)
    bounds = np.array([reach])
    made = make_epilogue(
        "X", "layer", requantize, TensorType((1, 1, channels)), Accumulators(bounds * 0, -bounds, bounds), 8, scale_bits
    )
    return Form(dict(made.defines)["X_FORM"])


def multiplier(value: int, shift: int) -> Multiplier:
    return Multiplier(np.array([value], np.int32), np.array([shift], np.uint8), -128, 127)


def table(values: NDArray[np.int64], shift: int = 5) -> ShiftTable:
    return ShiftTable(np.array([shift], np.uint8), values.astype(np.int8)[np.newaxis])


@pytest.mark.parametrize(
    ("requantize", "reach", "scale_bits", "form"),
    [
        (multiplier(1_454_682_831, 39), 350_000, 0, Form.LINE),
        (multiplier(1_454_682_831, 39), 350_000, 2, Form.CONVERTED_LINE),
        (multiplier(1_420_143_830, 41), 1_000_000, 0, Form.FINE_LINE),  # conv5 of the shipped network
        (multiplier(2**31 - 1, 31), 2**31 - 1, 0, Form.CONVERTED_LINE),  # bits of LINE would pass infinity
        (multiplier(2**31 - 1, 0), 1000, 0, Form.FINE_LINE),  # too steep for exact integers near MAGIC
        (table(np.clip(INDEX * 3 // 4, 0, 127)), 100_000, 0, Form.SHIFTED_LINE),
        (table(np.clip(-INDEX, -100, 100)), 100_000, 2, Form.SHIFTED_LINE),
        (table(np.clip(INDEX, 0, 127)), 2**31 - 10, 0, Form.TABLE),  # the rounding half would overflow
        (table(INDEX**2 // 200), 100_000, 0, Form.TABLE),
    ],
)
def test_forms(requantize: Multiplier | ShiftTable, reach: int, scale_bits: int, form: Form) -> None:
    assert forms(requantize, reach, scale_bits) == form


def test_one_channel_decides_for_all() -> None:
    both = Multiplier(np.array([1_454_682_831, 1_420_143_830], np.int32), np.array([39, 41], np.uint8), -128, 127)
    assert forms(both, 1_000_000) == Form.FINE_LINE


@pytest.mark.parametrize("dead", [0, 1], ids=["no multiplier", "a multiplier too small to be seen"])
def test_a_dead_channel_does_not_prevent_lines_for_the_others(dead: int) -> None:
    both = Multiplier(np.array([dead, 1_420_143_830], np.int32), np.array([41, 41], np.uint8), -128, 127)
    assert forms(both, 1_000_000) == Form.FINE_LINE


def test_constants_of_padding_channels_are_zero() -> None:
    made: Epilogue = make_epilogue(
        "X", "layer", multiplier(1, 0), TensorType((1, 1, 3)), Accumulators(*(np.array([v]) for v in (5, -90, 90))), 8
    )
    assert made.channels.data.shape == (8, 8)
    assert made.channels.data.dtype == np.int32
    assert not made.channels.data[3:].any()


kinds = st.tuples(st.booleans(), st.floats(0, 1)).map(
    lambda drawn: TensorType((1, 1, 1), 8, drawn[0], round((-128 if drawn[0] else 0) + 255 * drawn[1]), 1.0)
)


@given(kinds, kinds, kinds, st.integers(0, 2**21), st.integers(0, 2**21), st.integers(0, 29), st.booleans())
def test_additions(
    a: TensorType, b: TensorType, y: TensorType, ma: int, mb: int, shift: int, own_is_first: bool
) -> None:
    """The device's formula modulo 2**32 against that of model/layers/types.py, on the ends and on random integers."""
    add = Add("add", ("a", "b"), y, multipliers=(ma, mb), shift=shift, lo=y.lo, hi=y.hi)
    own = 0 if own_is_first else 1
    defines = dict(addition_defines(add, own, Tensors({"a": a, "b": b, "add": y}, frozenset())))
    rng = np.random.default_rng(ma ^ mb)
    values = [np.append(rng.integers(kind.lo, kind.hi + 1, 30), [kind.lo, kind.hi]) for kind in (a, b)]
    first, second = (grid.ravel() for grid in np.meshgrid(*values))
    wrapped = defines["ADD_OWN"] * (first, second)[own] + defines["ADD_OTHER"] * (first, second)[1 - own]
    total = (wrapped + defines["ADD_BIAS"] + 2**31) % 2**32 - 2**31
    result = np.clip((total >> defines["ADD_SHIFT"]) + defines["ADD_ZERO"], defines["ADD_LO"], defines["ADD_HI"])
    exact = rounding_shift(ma * (first - a.zero_point) + mb * (second - b.zero_point), shift) + y.zero_point
    np.testing.assert_array_equal(result, np.clip(exact, y.lo, y.hi))
