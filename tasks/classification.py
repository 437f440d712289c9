"""From logits to scores and labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.tasks import Classification


def logits_of(outputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The logits [N, labels] of a classification's first output [N, 1, 1, labels], as a view."""
    return outputs[0].reshape(len(outputs[0]), -1)


def evidence_of(outputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The evidence [N] that each image shows something known: the sum of the other outputs, or the greatest logit."""
    if len(outputs) == 1:
        greatest: NDArray[Any] = logits_of(outputs).max(axis=1)
        return greatest
    total: NDArray[np.int64] = np.sum([each.reshape(len(each)) for each in outputs[1:]], axis=0, dtype=np.int64)
    return total


def unknown(task: Classification, outputs: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Whether each image [N] is unknown by the model's rejection rule; none is where the model has no rule."""
    if task.rejection is None:
        return np.zeros(len(outputs[0]), np.bool_)
    below: NDArray[np.bool_] = evidence_of(outputs) < task.rejection.threshold
    return below


def known(task: Classification, outputs: Sequence[NDArray[Any]]) -> list[int]:
    """Indices of the images of outputs [N, 1, 1, C] that are not `unknown`, by Python's integers: a frame has few."""
    if task.rejection is None:
        return list(range(len(outputs[0])))
    threshold = task.rejection.threshold
    if len(outputs) == 1:
        return [i for i, row in enumerate(logits_of(outputs).tolist()) if max(row) >= threshold]
    others = [each.ravel().tolist() for each in outputs[1:]]
    return [i for i, each in enumerate(zip(*others, strict=True)) if sum(each) >= threshold]


def scores(logits: NDArray[Any], kind: TensorType, temperature: float = 1.0) -> NDArray[np.float64]:
    """Softmax of the dequantized logits, float64 of the same shape [..., labels]; each row sums to 1.

    p[i] = exp(z[i] / T) / sum of exp(z[j] / T), z = scale * (q - zero_point), T the temperature; the zero point
    cancels. The greatest logit is subtracted before the exponential, so that nothing overflows.
    """
    centred = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # a huge scale gives -inf, whose exponential is 0, as intended
        powers = np.exp(kind.scale / temperature * centred)
    probabilities: NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


class FrameScores:
    """`scores` of one image [labels] of 8-bit logits after the other: the same numbers, in fewer steps.

    exp(scale / T * (q - greatest)) has 256 values, so it is a table.
    """

    def __init__(self, kind: TensorType, temperature: float) -> None:
        with np.errstate(over="ignore"):
            self._powers: list[float] = np.exp(kind.scale / temperature * -np.arange(256.0)).tolist()

    def __call__(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """The scores [labels], float64, of logits [labels]."""
        integers: list[int] = logits.tolist()
        greatest, table = max(integers), self._powers
        powers = np.array([table[greatest - each] for each in integers])
        shares: NDArray[np.float64] = powers / powers.sum()
        return shares


def rank(logits: NDArray[Any], k: int = 1) -> NDArray[np.int64]:
    """Indices of the k greatest logits [..., k], greatest first; equal logits are ordered by index.

    The integers are compared, not the scores, so distinct logits stay distinct. k is limited to the number of labels.
    """
    order = np.argsort(-logits.astype(np.int64), axis=-1, kind="stable")
    best: NDArray[np.int64] = order[..., :k]
    return best


def top_k(model: Model, logits: NDArray[Any], k: int = 1) -> tuple[tuple[str, float], ...]:
    """Labels and scores of the k greatest logits of one image [labels], greatest first."""
    task = model.task
    assert isinstance(task, Classification)
    probabilities = scores(logits, model.output_types[0], task.temperature)
    return tuple((task.labels[i], float(probabilities[i])) for i in rank(logits, k))
