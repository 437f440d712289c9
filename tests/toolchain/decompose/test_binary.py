from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.toolchain.decompose.binary import decompose, nearest_basis

finite = st.floats(-8, 8, width=32).map(lambda value: 0.0 if abs(value) < 1e-3 else value)


def by_brute_force(row: NDArray[np.float64], bases: int) -> float:
    """Least square error over every matrix of signs, the factors by NumPy's least squares."""
    least = np.inf
    for signs in product((-1.0, 1.0), repeat=bases * len(row)):
        matrix = np.array(signs).reshape(len(row), bases)
        factors = np.linalg.lstsq(matrix, row, rcond=None)[0]
        least = min(least, float(np.square(row - matrix @ factors).sum()))
    return least


@settings(max_examples=25, deadline=None)
@given(st.lists(finite, min_size=1, max_size=4), st.integers(1, 2))
def test_a_short_channel_gets_the_least_error_of_all(row: list[float], bases: int) -> None:
    weights = np.array([row])
    found = decompose(weights, bases)
    wanted = by_brute_force(weights[0], bases)
    assert found.errors[0] == pytest.approx(wanted, abs=1e-9 * max(1.0, float(np.square(weights).sum())))


@settings(max_examples=40, deadline=None)
@given(st.lists(finite, min_size=5, max_size=9), st.integers(1, 8))
def test_no_weight_has_a_nearer_sum_and_no_factors_fit_better(row: list[float], bases: int) -> None:
    weights = np.array([row])
    found = decompose(weights, bases)
    scale = max(1.0, float(np.square(weights).sum()))
    sums = np.array([np.dot(signs, found.factors[0]) for signs in product((-1.0, 1.0), repeat=bases)])
    nearest = np.square(sums[:, None] - weights[0]).min(0).sum()
    assert found.errors[0] <= nearest + 1e-9 * scale
    fitted = np.linalg.lstsq(found.basis[:, 0].T.astype(float), weights[0], rcond=None)[0]
    best = np.square(weights[0] - found.basis[:, 0].T @ fitted).sum()
    assert found.errors[0] == pytest.approx(float(best), abs=1e-6 * scale)


@settings(max_examples=30, deadline=None)
@given(st.lists(finite, min_size=1, max_size=6), st.lists(st.floats(0, 4), min_size=1, max_size=4))
def test_each_weight_takes_the_nearest_of_all_sums(row: list[float], factors: list[float]) -> None:
    weights, some = np.array([row]), np.array([factors])
    basis = nearest_basis(weights, some)
    assert basis.shape == (len(factors), 1, len(row))
    assert set(np.unique(basis)) <= {-1, 1}
    found = np.abs(weights[0] - basis[:, 0].T @ some[0])
    sums = np.array([np.dot(signs, factors) for signs in product((-1.0, 1.0), repeat=len(factors))])
    np.testing.assert_allclose(found, np.abs(sums[:, None] - weights[0]).min(0), atol=1e-12)


def test_one_basis_is_the_sign_and_the_mean_magnitude() -> None:
    weights = np.random.default_rng(1).normal(0, 1, (5, 40))
    found = decompose(weights, 1)
    np.testing.assert_allclose(found.factors[:, 0], np.abs(weights).mean(1))
    np.testing.assert_array_equal(found.basis[0], np.sign(weights))


def test_more_bases_leave_less_error_and_no_more_than_even_steps_leave() -> None:
    weights = np.random.default_rng(2).normal(0, 1, (3, 90))
    errors = [decompose(weights, bases).errors for bases in range(1, 9)]
    for fewer, more in pairwise(errors):
        assert (more < fewer).all()
    reach = np.abs(weights).max(1, keepdims=True)
    for bases in range(1, 9):
        steps = 2**bases - 1
        even = reach * ((2 * np.clip(np.floor((weights / reach + 1) / 2 * steps + 0.5), 0, steps)) / steps - 1)
        assert (errors[bases - 1] <= np.square(weights - even).sum(1) + 1e-12).all()


def test_weights_that_are_such_a_sum_come_back_exactly() -> None:
    rng = np.random.default_rng(3)
    factors = np.array([[5.0, 2.0, 0.75]])
    weights = factors @ rng.choice([-1.0, 1.0], (3, 60))
    found = decompose(weights, 3)
    np.testing.assert_allclose(found.factors, factors)
    np.testing.assert_allclose(found.decode(), weights)


def test_the_result_depends_on_nothing_but_the_weights_and_has_an_order() -> None:
    weights = np.random.default_rng(4).normal(0, 1, (4, 30)).astype(np.float32)
    one, other = decompose(weights, 4), decompose(weights[::-1], 4)
    np.testing.assert_array_equal(one.basis, other.basis[:, ::-1])
    np.testing.assert_array_equal(one.factors, other.factors[::-1])
    assert (one.factors >= 0).all()
    assert (np.diff(one.factors, axis=1) <= 0).all()
    np.testing.assert_allclose(np.square(weights - one.decode()).sum(1), one.errors)


@pytest.mark.parametrize("length", [1, 3, 50])
def test_zeros_are_decomposed_into_zeros(length: int) -> None:
    found = decompose(np.zeros((2, length)), 3)
    assert not found.decode().any()
    assert not found.errors.any()


def test_halfway_between_two_sums_a_weight_takes_the_lesser() -> None:
    """Factors 2 and 1 have the sums -3, -1, 1 and 3."""
    factors = np.array([[2.0, 1.0]])
    basis = nearest_basis(np.array([[-2.0, 0.0, 2.0]]), factors)
    assert np.einsum("bon,ob->on", basis, factors).tolist() == [[-3.0, -1.0, 1.0]]


def alternated(row: NDArray[np.float64], factors: NDArray[np.float64]) -> float:
    """Square error where plain alternating ends."""
    signs, error = np.array(list(product((-1.0, 1.0), repeat=len(factors)))), np.inf
    while True:
        sums = signs @ factors
        order = np.argsort(sums)
        matrix = signs[order[np.searchsorted((sums[order][1:] + sums[order][:-1]) / 2, row)]]
        factors = np.linalg.lstsq(matrix, row, rcond=None)[0]
        found = float(np.square(matrix @ factors - row).sum())
        if found >= error * (1 - 1e-9):
            return min(found, error)
        error = found


@pytest.mark.parametrize("bases", [3, 4, 5])
@pytest.mark.parametrize("kind", ["normal", "heavy", "outlier"])
def test_more_starts_find_nothing_much_better(kind: str, bases: int) -> None:
    """Twenty random starts of plain alternating: their best end has at least 0.98 of the error."""
    rng = np.random.default_rng(8)
    rows = rng.standard_t(3, (2, 144)) if kind == "heavy" else rng.standard_normal((2, 144))
    if kind == "outlier":
        rows[:, -1] = 60
    starts = rng.dirichlet(np.full(bases, 0.7), 20) * rng.uniform(0.6, 1.1, (20, 1))
    least = [min(alternated(row, np.abs(row).max() * start) for start in starts) for row in rows]
    assert decompose(rows, bases).errors.sum() <= 1.02 * sum(least)
