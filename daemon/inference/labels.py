"""What labels are called in messages: the network's own names, or those that the config gives them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.classification import rank, scores
from edgemeta.model.graph import Model


class LabelMap:
    """A network's labels under the names of a config; labels of one name count as one label.

    names: each name once, in the order of the network's labels.
    """

    def __init__(self, model: Model, given: Mapping[str, str]) -> None:
        named = [given.get(label, label) for label in model.task.labels]
        self.names = tuple(dict.fromkeys(named))
        self._kind, self._temperature = model.logits, model.task.temperature
        self._groups = None
        if len(self.names) < len(named):
            self._groups = np.array([self.names.index(name) for name in named])

    def scores(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Score of every name for one image's logits [labels]: of a group, the sum of its labels' scores."""
        own = scores(logits, self._kind, self._temperature)
        if self._groups is None:
            return own
        summed: NDArray[np.float64] = np.bincount(self._groups, own, len(self.names)).astype(np.float64)
        return summed

    def rank(self, logits: NDArray[Any], named: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        """Places in `names` of the k best, best first, the earlier one at a tie; `named` are the logits' `scores`.

        Without groups the integers are compared, so that distinct logits stay distinct.
        """
        if self._groups is None:
            return rank(logits, k)
        best: NDArray[np.int64] = np.argsort(-named, kind="stable")[:k]
        return best


def unknown_labels(given: Mapping[str, str], models: list[Model]) -> list[str]:
    """The labels that a config names and that none of the models has."""
    known = {label for model in models for label in model.task.labels}
    return [label for label in given if label not in known]
