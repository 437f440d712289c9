"""Logistic regression between known and foreign images, by Newton's method in float64."""

from collections.abc import Sequence

import numpy as np

from edgemeta.tasks.numbers import Float64

RIDGE = 1e-3
"""Weight of the squared coefficients of standardized features: keeps them finite where classes can be separated."""
SPREAD = 0.5
"""Least standard deviation by which a feature is divided: those that hardly change keep small coefficients."""
_STEPS, _ENOUGH = 50, 1e-6


def fit_row(known: Float64, foreign: Sequence[Float64]) -> Float64:
    """Coefficients [C] of the logarithm of the odds that an image is known, but for a constant, from features [N, C].

    Known and foreign images weigh alike, and so does each kind of foreign images. Features are standardized by the
    known images' mean and standard deviation; the result applies to the features as they are.
    """
    mean, spread = known.mean(0), np.maximum(known.std(0), SPREAD)
    x = np.concatenate([(each - mean) / spread for each in (known, *foreign)])
    x = np.column_stack([x, np.ones(len(x))])
    is_known = np.repeat([1.0, 0.0], [len(known), len(x) - len(known)])
    weight = np.concatenate([_shares(known, 2), *(_shares(each, 2 * len(foreign)) for each in foreign)])
    ridge = np.append(np.full(x.shape[1] - 1, RIDGE), 0.0)
    b = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        odds = 1 / (1 + np.exp(-np.clip(x @ b, -40, 40)))
        slope = x.T @ (weight * (odds - is_known)) + ridge * b
        curvature = (x * (weight * odds * (1 - odds))[:, np.newaxis]).T @ x + np.diag(ridge + 1e-12)
        step = np.linalg.solve(curvature, slope)
        b -= step
        if np.abs(step).max() < _ENOUGH:
            break
    row: Float64 = b[:-1] / spread
    return row


def _shares(images: Float64, parts: int) -> Float64:
    """The weight of each image of a group that has 1 / parts of all weight."""
    return np.full(len(images), 1 / (parts * len(images)))
