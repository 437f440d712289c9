"""Calibration of scores: the expected calibration error, and the temperature that reduces it.

Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", 2017.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.layers import TensorType
from edgemeta.model.prove_task import MAX_TEMPERATURE, MIN_TEMPERATURE
from edgemeta.tasks.classification import scores
from edgemeta.toolchain.errors import QuantizeError

Real: TypeAlias = NDArray[np.float64]

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


def fit_temperature(
    logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]], report: Report | None = None
) -> float:
    """Temperature of least negative log likelihood, to four decimals, for integer logits [N, labels] of these classes.

    Without mistakes the likelihood has no optimum: the smaller the temperature, the likelier. Then it is
    `fit_doubtful_temperature`, and `report` is called with one sentence that says so. Raises QuantizeError if the
    network is no better than chance, where the likelihood grows with the temperature.
    """
    z, targets = _real(logits, kind), np.eye(logits.shape[1])[classes]
    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    if _slope(logits, kind, z, targets, low) <= 0:
        share = float((logits.argmax(1) == classes).mean())
        raise QuantizeError(
            f"no temperature can be fitted to {len(classes)} held-out images of which {share:.1%} are classified "
            "correctly, expected more than by chance"
        )
    if _slope(logits, kind, z, targets, high) >= 0:
        temperature = fit_doubtful_temperature(logits, kind, classes)
        if report is not None:
            report(
                f"there is no clear mistake among {len(classes)} held-out images, so the temperature of the scores, "
                f"{temperature:g}, leaves room for one in {len(classes) + 2}"
            )
        return temperature
    return _of_least_cross_entropy(logits, kind, z, targets)


def fit_doubtful_temperature(logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]]) -> float:
    """Temperature of least cross entropy, to four decimals, if each of N images has its class in doubt.

    Integer logits [N, labels]. The true class has the probability 1 - d and the others share d = 1 / (N + 2): what N
    right answers without a wrong one leave possible (Laplace's rule of succession). So there is an optimum even if all
    answers are right; it is limited to what a model file may hold.
    """
    count, labels = logits.shape
    doubt = 1 / (count + 2)
    targets = np.full((count, labels), doubt / max(labels - 1, 1))
    targets[np.arange(count), classes] = 1 - doubt
    return _of_least_cross_entropy(logits, kind, _real(logits, kind), targets)


def _real(logits: NDArray[Any], kind: TensorType) -> Real:
    """The logits as real numbers [N, labels], the greatest of each image 0."""
    real: Real = kind.scale * (logits.astype(np.float64) - logits.max(1, keepdims=True))
    return real


def _slope(logits: NDArray[Any], kind: TensorType, z: Real, targets: Real, b: float) -> float:
    """Slope of minus the cross entropy with targets [N, labels] in b = 1 / T; it decreases with b."""
    return float(((targets - scores(logits, kind, 1 / b)) * z).sum(1).mean())


def _of_least_cross_entropy(logits: NDArray[Any], kind: TensorType, z: Real, targets: Real) -> float:
    """The temperature where the slope is zero, by bisection within the bounds of a model file."""
    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(logits, kind, z, targets, middle) > 0 else (low, middle)
    return round(min(max(1 / low, MIN_TEMPERATURE), MAX_TEMPERATURE), 4)
