"""Finds the candidates of one level. Integers are compared first, so that few numbers are computed."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.tasks.detection.boxes import cells_of, width_of
from edgemeta.tasks.numbers import Float64, Output, limited, softmax

Outputs: TypeAlias = Sequence[NDArray[Any]]
"""The outputs of one image, each [H, W, C], in the order of the model."""
Indices: TypeAlias = NDArray[np.int64]
"""Rows of a level, or of all levels one after the other: [n]."""
Candidates: TypeAlias = tuple[Indices, Indices, Float64]
"""Rows [n] of a level, ascending; the best label of each [n]; its score [n]."""
NONE: Candidates = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
_FIRST = np.zeros(1, np.int64)


class Level:
    """One level of a detection, ready for many images. cells: of its candidates.

    thresholds: float64 [labels], the least score of an object of each label, each in 0.001 .. 0.999.
    """

    def __init__(self, model: Model, task: Detection, level: DetectionLevel, thresholds: Float64) -> None:
        self.classes = Output(model, level.classes, len(task.labels) + task.background)
        self.sizes = Output(model, level.sizes, 2) if level.sizes else None
        width = width_of(task) - (2 if level.sizes else 0)
        self.boxes = Output(model, level.boxes, width) if level.boxes else None
        self.objectness = Output(model, level.objectness, 1) if level.objectness else None
        height, width, _ = model.output_types[self.classes.position].shape
        self.cells = cells_of(level, (height, width), model.input.shape[:2])
        lowest = thresholds.min(keepdims=True)
        if self.objectness is not None:
            least = self.objectness.least(lowest ** (1 / task.powers[0]))
            self._least = _for_all(least, len(self.cells.place))
        elif task.background:
            self._least_margin = float(np.log(lowest / (1 - lowest))[0]) - 1e-6
        else:
            scores = (lowest if (thresholds == lowest).all() else thresholds) ** (1 / task.powers[1])
            self._least = _for_all(self.classes.least(scores), len(self.cells.place) * self.classes.width)

    def rows(self, outputs: Outputs) -> Indices:
        """Rows that may score enough, ascending: all that do, and some that do not. Not for softmax scores.

        The score is a power of sigmoid(objectness) times a factor of at most 1, or without objectness a power of
        sigmoid(class).
        """
        if self.objectness is not None:
            return (outputs[self.objectness.position].reshape(-1) >= self._least).nonzero()[0]
        hits = (outputs[self.classes.position].reshape(-1) >= self._least).nonzero()[0] // self.classes.width
        return hits[np.diff(hits, prepend=-1).nonzero()[0]]  # each row once

    def numbers(self, outputs: Outputs, rows: Indices) -> Float64:
        """The box numbers [n, `width_of`] of these rows."""
        parts = [
            each.numbers(each.rows(outputs[each.position])[rows], rows) for each in (self.boxes, self.sizes) if each
        ]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(rows), 0))

    def softmax_candidates(self, outputs: Outputs) -> Candidates:
        """Rows that may score enough, the best label of each, its score by softmax.

        The score is at most that of two classes, the label's and the background.
        """
        classes = self.classes
        integers = classes.rows(outputs[classes.position])
        if classes.has_one_step:
            both = np.stack([integers[:, 0], integers[:, 1:].max(axis=1)], axis=1)
            numbers = classes.numbers(both, _FIRST)
        else:
            every = classes.numbers(integers, np.arange(len(integers)))
            numbers = np.stack([every[:, 0], every[:, 1:].max(axis=1)], axis=1)
        rows = (numbers[:, 1] - numbers[:, 0] >= self._least_margin).nonzero()[0]
        if not len(rows):
            return NONE
        values = classes.values(integers[rows], rows)
        labels = values[:, 1:].argmax(axis=1)
        return rows, labels, softmax(limited(values))[np.arange(len(rows)), labels + 1]


def _for_all(least: NDArray[Any], count: int) -> NDArray[Any]:
    """One integer for all elements of the level, or repeated for each of `count` elements."""
    return least if least.size == 1 else np.resize(least, count)
