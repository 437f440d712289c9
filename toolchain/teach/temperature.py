"""The temperature of a network that was taught with few pictures, all of which it may get right."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType
from edgemeta.model.prove_task import MAX_TEMPERATURE, MIN_TEMPERATURE
from edgemeta.tasks.classification import scores

_HALVINGS = 60


def fit_doubtful_temperature(logits: NDArray[Any], kind: TensorType, classes: NDArray[np.integer[Any]]) -> float:
    """Temperature of least cross entropy, to four decimals, if each of N pictures has its class in doubt.

    Integer logits [N, labels]. The true class has the probability 1 - d and the others share d = 1 / (N + 2): what N
    right answers without a wrong one leave possible (Laplace's rule of succession). So there is an optimum even if all
    answers are right; it is limited to what a model file may hold. The cross entropy is convex in 1 / T.
    """
    count, labels = logits.shape
    doubt = 1 / (count + 2)
    targets = np.full((count, labels), doubt / max(labels - 1, 1))
    targets[np.arange(count), classes] = 1 - doubt
    z = kind.scale * (logits.astype(np.float64) - logits.max(1, keepdims=True))
    wanted = float((targets * z).sum(1).mean())
    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_below = wanted > float((scores(logits, kind, 1 / middle) * z).sum(1).mean())
        low, high = (middle, high) if is_below else (low, middle)
    return round(min(max(1 / low, MIN_TEMPERATURE), MAX_TEMPERATURE), 4)
