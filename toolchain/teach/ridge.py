"""Ridge regression on the classes, in its dual form: few pictures, many features.

The targets are +1 for the class of a picture and -1 for all others. With weights v (sum 1) that give every class the
same sum, K the products of all pairs of pictures, centred by v, and V = diag(v): the coefficients of a picture are
(K + s t V^-1)^-1 T, T the centred targets, t the strength and s = trace(V K). The strength is thereby in units of the
features' own spread, and independent of their number and of the number of pictures.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.numbers import Float64

STRENGTHS = (0.0001, 0.001, 0.003, 0.01, 0.03)
"""Strengths of the regularization to choose from."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A linear function of the products with training pictures: logits = (products @ pictures) + bias.

    pictures: [N, labels], bias: [labels].
    """

    pictures: Float64
    bias: Float64


def solve(products: Float64, y: NDArray[np.int64], labels: int, strength: float) -> Coefficients:
    """Fit to training pictures: their products [N, N] with each other, their classes [N]."""
    weights = class_weights(y, labels)
    targets = 2.0 * np.eye(labels)[y] - 1
    target_mean = weights @ targets
    mean_products = products @ weights  # of each picture with the weighted mean picture
    mean_square = float(weights @ mean_products)
    centred = products - mean_products[:, np.newaxis] - mean_products[np.newaxis] + mean_square
    spread = max(float(weights @ np.diag(centred)), 1e-12)
    system = centred + np.diag(strength * spread / weights)
    solved = np.linalg.solve(system, targets - target_mean).astype(np.float64)
    pictures: Float64 = solved - np.outer(weights, solved.sum(0))  # subtracts the mean picture from each picture
    return Coefficients(pictures, target_mean - mean_products @ pictures)


def class_weights(y: NDArray[np.int64], labels: int) -> Float64:
    """Weights [N] of pictures of classes y [N], sum 1, by which every class that occurs counts the same."""
    counts = np.bincount(y, minlength=labels)
    weights = 1.0 / counts[y]
    shares: Float64 = weights / weights.sum()
    return shares
