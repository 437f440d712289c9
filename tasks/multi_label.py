"""Labels of which each is present or not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import MultiLabel
from edgemeta.tasks.numbers import Float64, Output


class MultiLabelReader:
    """Scores of a multi-label classification; built once for a model."""

    def __init__(self, model: Model) -> None:
        assert isinstance(model.task, MultiLabel)
        self.labels, self.threshold = model.task.labels, model.task.score_threshold
        self._output = Output(model, model.outputs[0], len(self.labels))
        self._columns = np.arange(len(self.labels))

    def scores(self, logits: NDArray[Any]) -> Float64:
        """Score [labels] of every label: the sigmoid of its logit, from the integers [labels] of one image."""
        return self._output.sigmoids(np.ascontiguousarray(logits), np.zeros_like(self._columns), self._columns)

    def present(self, logits: NDArray[Any]) -> tuple[tuple[str, float], ...]:
        """Labels that score at least the threshold and their scores, greatest first, then by index. logits [labels]."""
        scores = self.scores(logits)
        order = np.argsort(-scores, kind="stable")
        return tuple((self.labels[i], float(scores[i])) for i in order if scores[i] >= self.threshold)
