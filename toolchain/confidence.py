"""How far scores can be believed: the calibration error, and the temperature that brings them nearer to the truth.

Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", 2017.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.classification import scores
from edgemeta.model.layers import TensorType
from edgemeta.model.prove import MAX_TEMPERATURE, MIN_TEMPERATURE
from edgemeta.toolchain.errors import QuantizeError

BINS = 15
_HALVINGS = 60


def calibration_error(probabilities: NDArray[np.float64], classes: NDArray[np.integer[Any]]) -> float:
    """Expected calibration error 0..1 of scores [N, labels] for images of these classes [N].

    The images are sorted into 15 bins of equal width by their greatest score; each bin counts, by its share of the
    images, with the distance between its mean score and its share of images named right.
    """
    confidence, right = probabilities.max(1), probabilities.argmax(1) == classes
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(bins, confidence - right, BINS)
    return float(np.abs(gap).sum() / len(classes))


def negative_log_likelihood(
    logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]], temperature: float
) -> float:
    """Mean over images of -log of the score of their class; logits as integers [N, labels]."""
    shares = scores(logits, kind, temperature)[np.arange(len(classes)), classes]
    return float(-np.log(np.maximum(shares, np.finfo(np.float64).tiny)).mean())


def fit_temperature(logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]]) -> float:
    """Temperature of least negative log likelihood, to four decimals, for integer logits [N, labels] of these classes.

    The likelihood is concave in b = 1 / T. Its slope, mean over images of the class's logit less the logits' mean under
    the scores, falls with b, so halving finds its zero. Raises QuantizeError where no temperature within the model
    file's bounds is best: all images named right, or the network no better than chance.
    """
    z = kind.scale * (logits.astype(np.float64) - logits.max(1, keepdims=True))
    own = z[np.arange(len(classes)), classes]

    def slope(b: float) -> float:
        return float((own - (scores(logits, kind, 1 / b) * z).sum(1)).mean())

    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    if slope(low) <= 0 or slope(high) >= 0:
        share = float((logits.argmax(1) == classes).mean())
        raise QuantizeError(
            f"no temperature fits {len(classes)} held-out images of which {share:.1%} are named right, "
            "expected more images, and some that are named wrong"
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return round(1 / low, 4)
