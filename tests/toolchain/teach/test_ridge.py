"""The dual form against the primal one, solved directly."""

import numpy as np
import pytest

from edgemeta.toolchain.teach.ridge import class_weights, solve


@pytest.mark.parametrize("strength", [0.0003, 0.1])
def test_it_is_weighted_ridge_regression(strength: float) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 6)) + 2, rng.integers(0, 3, 30)
    y[:3] = 0, 1, 2
    weights = class_weights(y, 3)
    targets = 2.0 * np.eye(3)[y] - 1
    mean, target_mean = weights @ x, weights @ targets
    centred = x - mean
    spread = (weights * (centred**2).sum(1)).sum()
    normal = centred.T @ (weights[:, None] * centred) + strength * spread * np.eye(6)
    expected = np.linalg.solve(normal, centred.T @ (weights[:, None] * (targets - target_mean)))
    found = solve(x @ x.T, y, 3, strength)
    np.testing.assert_allclose(x.T @ found.pictures, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.bias, target_mean - mean @ expected, rtol=1e-8, atol=1e-10)


def test_every_class_counts_the_same() -> None:
    y = np.array([0, 0, 0, 1, 2, 2])
    weights = class_weights(y, 3)
    np.testing.assert_allclose([weights[y == label].sum() for label in range(3)], 1 / 3)
