"""Ranges of tensor types."""

import numpy as np
import pytest

from edgemeta.model.layers import Add, Clamp, Concat, TensorType


@pytest.mark.parametrize(
    ("bits", "signed", "lo", "hi", "dtype"),
    [
        (8, True, -128, 127, np.int8),
        (8, False, 0, 255, np.uint8),
        (5, True, -16, 15, np.int8),
        (5, False, 0, 31, np.uint8),
        (1, True, -1, 0, np.int8),
        (1, False, 0, 1, np.uint8),
        (32, True, -(2**31), 2**31 - 1, np.int32),
    ],
)
def test_range_and_dtype(bits: int, signed: bool, lo: int, hi: int, dtype: type) -> None:
    kind = TensorType((1, 1, 1), bits, signed)
    assert (kind.lo, kind.hi, kind.dtype) == (lo, hi, dtype)


def test_the_sources_of_each_arity() -> None:
    kind = TensorType((1, 1, 1))
    assert Clamp("c", "a", kind, 0, 1).sources == ("a",)
    assert Add("s", ("a", "b"), kind, multipliers=(1, 1), shift=0, lo=0, hi=1).sources == ("a", "b")
    assert Concat("j", ("a", "b", "c"), kind).sources == ("a", "b", "c")
