"""Codes: their sum is the weight, for every weight; a fixed weight takes as few as its signed digits."""

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.codes import codes_of
from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights


@pytest.mark.parametrize("bits", range(1, 9))
def test_fixed_weights_of_every_value(bits: int) -> None:
    values = np.arange(-(1 << bits - 1), 1 << bits - 1).astype(np.int8)
    codes = codes_of(FixedWeights(values[:, np.newaxis], bits, np.ones(1)))
    assert (codes.values().sum(axis=0)[:, 0] == values).all()
    assert codes.terms <= (bits + 2) // 2
    assert codes.bits <= 5
    assert (codes.negatives() == (codes.values() < 0).sum(axis=(0, 2))).all()


@pytest.mark.parametrize("bits", range(2, 6))
def test_power_of_two_codes_keep_their_bits(bits: int) -> None:
    magnitude = np.arange((1 << bits - 2) + 1)
    stored = np.concatenate([magnitude, magnitude[1:] | 1 << bits - 1]).astype(np.uint8)[:, np.newaxis]
    weights = PowerOfTwoWeights(stored, bits, np.ones(1))
    codes = codes_of(weights)
    assert (codes.values()[0] == weights.decode()).all()
    assert (codes.terms, codes.bits) == (1, bits)


def test_weights_of_zero_are_one_term() -> None:
    codes = codes_of(FixedWeights(np.zeros((2, 3), np.int8), 8, np.ones(1)))
    assert codes.codes.shape == (1, 2, 3)
    assert not codes.codes.any()
