"""Every encoding decodes to the integers that its docstring names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights

ONE = np.ones(1)


@pytest.mark.parametrize(
    ("bits", "meaning"),
    [
        (2, {0b00: 0, 0b01: 1, 0b11: -1}),
        (3, {0b000: 0, 0b001: 1, 0b010: 2, 0b101: -1, 0b110: -2}),
        (4, {0: 0, 1: 1, 2: 2, 3: 4, 4: 8, 9: -1, 10: -2, 11: -4, 12: -8}),
        (5, {0: 0, 1: 1, 8: 128, 17: -1, 24: -128}),
    ],
)
def test_power_of_two_codes(bits: int, meaning: dict[int, int]) -> None:
    weights = PowerOfTwoWeights(np.array([list(meaning)], np.uint8), bits, ONE)
    assert weights.decode().tolist() == [list(meaning.values())]
    assert weights.decode().dtype == np.int32
    assert weights.shape == (1, len(meaning))


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_binary_bases_sum_by_output_channel(bases: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = rng.choice([-1, 1], (bases, 3, 2, 5)).astype(np.int8)
    factors = rng.integers(-(2**15), 2**15, (3, bases)).astype(np.int16)
    decoded = BinaryWeights(basis, factors, ONE).decode()
    assert decoded.dtype == np.int32
    for o, y, x in np.ndindex(3, 2, 5):
        assert decoded[o, y, x] == sum(int(factors[o, b]) * int(basis[b, o, y, x]) for b in range(bases))


def test_the_greatest_binary_weight_fits() -> None:
    weights = BinaryWeights(np.ones((8, 1, 1), np.int8), np.full((1, 8), -(2**15), np.int16), ONE)
    assert weights.decode().tolist() == [[-(2**18)]]


def test_fixed_weights_are_their_values() -> None:
    weights = FixedWeights(np.array([[-128, 127]], np.int8), 8, ONE)
    assert weights.decode().tolist() == [[-128, 127]]
    assert weights.decode().dtype == np.int32
