"""Calibration of scores: the expected calibration error, and the temperature that reduces it.

Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", 2017.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType
from edgemeta.model.prove_task import MAX_TEMPERATURE, MIN_TEMPERATURE
from edgemeta.tasks.classification import scores
from edgemeta.toolchain.errors import QuantizeError

BINS = 15
_HALVINGS = 60


def calibration_error(probabilities: NDArray[np.float64], classes: NDArray[np.integer[Any]]) -> float:
    """Expected calibration error 0..1 of scores [N, labels] for images of these classes [N].

    The images are sorted into 15 bins of equal width by their greatest score. The result is the mean over the bins,
    weighted by their number of images, of |mean score - share of correctly classified images|.
    """
    confidence, right = probabilities.max(1), probabilities.argmax(1) == classes
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(bins, confidence - right, BINS)
    return float(np.abs(gap).sum() / len(classes))


def negative_log_likelihood(
    logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]], temperature: float
) -> float:
    """Mean over images of -log(score of the true class); logits are integers [N, labels]."""
    shares = scores(logits, kind, temperature)[np.arange(len(classes)), classes]
    return float(-np.log(np.maximum(shares, np.finfo(np.float64).tiny)).mean())


def fit_temperature(logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]]) -> float:
    """Temperature of least negative log likelihood, to four decimals, for integer logits [N, labels] of these classes.

    The log likelihood is concave in b = 1 / T. Its slope, the mean over images of the true class's logit minus the mean
    logit under the scores, decreases with b, so bisection finds its zero. Raises QuantizeError if there is no optimum
    within the model file's bounds: all images are classified correctly, or the network is no better than chance.
    """
    z = kind.scale * (logits.astype(np.float64) - logits.max(1, keepdims=True))
    own = z[np.arange(len(classes)), classes]

    def slope(b: float) -> float:
        return float((own - (scores(logits, kind, 1 / b) * z).sum(1)).mean())

    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    if slope(low) <= 0 or slope(high) >= 0:
        share = float((logits.argmax(1) == classes).mean())
        raise QuantizeError(
            f"no temperature can be fitted to {len(classes)} held-out images of which {share:.1%} are classified "
            "correctly, expected more images, some of them misclassified"
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return round(1 / low, 4)
