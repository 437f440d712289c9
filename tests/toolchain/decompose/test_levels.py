"""Errors, scales and fits on sorted weights, beside the same by definition."""

from itertools import product

import numpy as np
import pytest

from edgemeta.toolchain.decompose.levels import Channel, signs_of


@pytest.mark.parametrize("bases", [1, 2, 4, 6])
def test_errors_and_scales_are_those_of_the_nearest_sums(bases: int) -> None:
    rng = np.random.default_rng(bases)
    weights = np.round(rng.standard_normal(40), 1)  # with equal ones
    factors = np.concatenate([rng.uniform(0, 1, (5, bases)), np.zeros((1, bases)), np.ones((1, bases))])
    found, scales = Channel(weights).errors(factors), Channel(weights).scales(factors)
    for each, error, scale in zip(factors, found, scales, strict=True):
        sums = np.array([np.dot(signs, each) for signs in product((-1.0, 1.0), repeat=bases)])
        nearest = sums[np.abs(sums[:, None] - weights).argmin(0)]
        assert error == pytest.approx(float(np.square(weights - nearest).sum()))
        if scale != 1:
            fitted = np.dot(weights, nearest) / np.dot(nearest, nearest)
            assert scale == pytest.approx(float(fitted), rel=0.2)  # ties may go either way


def test_alternating_ends_where_neither_step_helps_and_begins_no_better() -> None:
    rng = np.random.default_rng(1)
    weights, starts = rng.standard_normal(60), rng.uniform(0, 1, (4, 3))
    channel = Channel(weights)
    ends, errors = channel.alternated(starts, 0.0, 200)
    np.testing.assert_allclose(channel.errors(ends), errors)
    assert (errors <= channel.errors(starts)).all()
    for end, error in zip(ends, errors, strict=True):
        sums = signs_of(3) @ end
        matrix = signs_of(3)[np.abs(sums[:, None] - weights).argmin(0)].astype(float)
        best = np.linalg.lstsq(matrix, weights, rcond=None)[0]
        assert error <= np.square(matrix @ best - weights).sum() * (1 + 1e-6)
