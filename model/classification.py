"""What logits mean: scores, and the labels they name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType


def scores(logits: NDArray[Any], kind: TensorType, temperature: float = 1.0) -> NDArray[np.float64]:
    """Softmax of the dequantized logits, float64 of the same shape [..., labels]; each row sums to 1.

    p[i] = exp(z[i] / T) / sum of exp(z[j] / T), z = scale * (q - zero_point), T the temperature; the zero point
    cancels, and the greatest logit is taken off before the exponential, so that nothing overflows.
    """
    centred = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # a huge scale gives -inf, whose power is 0, as it should be
        powers = np.exp(kind.scale / temperature * centred)
    probabilities: NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def rank(logits: NDArray[Any], k: int = 1) -> NDArray[np.int64]:
    """Indices of the k greatest logits [..., k], greatest first; of equal logits the lowest index comes first.

    The integers are compared, not the scores: distinct logits stay distinct. k is cut to the number of labels.
    """
    order = np.argsort(-logits.astype(np.int64), axis=-1, kind="stable")
    best: NDArray[np.int64] = order[..., :k]
    return best


def top_k(model: Model, logits: NDArray[Any], k: int = 1) -> tuple[tuple[str, float], ...]:
    """Label and score of the k greatest of one image's logits [labels], greatest first."""
    probabilities = scores(logits, model.logits, model.task.temperature)
    return tuple((model.task.labels[i], float(probabilities[i])) for i in rank(logits, k))
