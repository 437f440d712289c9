import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.model.layers.bounds import prove_weights
from edgemeta.toolchain.decompose.binary import decompose
from edgemeta.toolchain.decompose.integer import REACH, integer_form


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from([1e-12, 1.0, 1e9]), st.booleans())
def test_every_integer_fits_int8_and_is_the_nearest_sum(bases: int, seed: int, size: float, per_channel: bool) -> None:
    weights = np.random.default_rng(seed).standard_t(3, (3, 3, 3, 2)) * size
    weights[0, 0, 0, 0] = 0
    found = integer_form(weights, decompose(weights.reshape(3, -1), bases), per_channel, np.zeros(3))
    prove_weights(found)
    assert found.shape == weights.shape
    assert found.scale.shape == ((3,) if per_channel else (1,))
    assert (found.factors >= 0).all()
    assert found.factors.sum(1).max() <= REACH
    step = found.scale.reshape(-1, 1, 1, 1)
    sums = np.array([found.factors @ (1 - 2 * ((code >> np.arange(bases)) & 1)) for code in range(2**bases)])
    nearest = np.abs(sums[:, :, None, None, None] * step - weights).min(0)
    np.testing.assert_allclose(np.abs(found.decode() * step - weights), nearest, atol=1e-12 * size)


@pytest.mark.parametrize("bases", [2, 4, 6])
def test_its_error_is_little_more_than_that_of_real_factors(bases: int) -> None:
    weights = np.random.default_rng(5).normal(0, 1, (8, 200))
    real = decompose(weights, bases)
    found = integer_form(weights, real, True, np.zeros(8))
    errors = np.square(weights - found.decode() * found.scale[:, None]).sum(1)
    assert (errors < real.errors * 1.35 ** (bases / 2)).all()


def test_a_step_is_at_least_what_the_bias_asks_for() -> None:
    weights = np.random.default_rng(6).normal(0, 1, (2, 50))
    least = np.array([0.0, 0.5])
    real = decompose(weights, 3)
    found = integer_form(weights, real, True, least)
    assert found.scale[0] < 0.1
    assert found.scale[1] == 0.5
    assert integer_form(weights, real, False, least).scale.tolist() == [0.5]


@pytest.mark.parametrize("bits", [9, 12, 16])
@pytest.mark.parametrize("per_channel", [True, False])
def test_more_bits_keep_the_decomposition(bits: int, per_channel: bool) -> None:
    weights = np.random.default_rng(7).normal(0, 1, (8, 200))
    real = decompose(weights, 5)
    found = integer_form(weights, real, per_channel, np.zeros(8), bits)
    prove_weights(found)
    assert found.factors.sum(1).max() <= 2 ** (bits - 1) - 1
    assert (found.basis == real.basis).all()
    rounding = 5 * found.scale.reshape(-1, 1) / 2
    assert (np.abs(found.decode() * found.scale[:, None] - real.decode()) <= rounding * 1.0001).all()


def test_a_channel_of_zeros_stays_zero() -> None:
    found = integer_form(np.zeros((2, 9)), decompose(np.zeros((2, 9)), 2), True, np.zeros(2))
    assert not found.decode().any()
    prove_weights(found)


@pytest.mark.parametrize("bases", [5, 8])
def test_a_weight_far_from_the_others_costs_no_more_than_the_finest_grid(bases: int) -> None:
    """Sums of one parity lie two steps from each other, and 127 steps reach the outlier."""
    weights = np.random.default_rng(9).standard_normal((4, 144))
    weights[:, -1] = 60
    found = integer_form(weights, decompose(weights, bases), True, np.zeros(4))
    errors = np.square(weights - found.decode() * found.scale[:, None]).sum(1)
    grid = 2 * 60 / 127
    assert errors.mean() <= 1.05 * 144 * grid**2 / 12
