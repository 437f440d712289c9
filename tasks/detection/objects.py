"""The objects of an image, from the integers of a detection's outputs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Box
from edgemeta.model.tasks import MAX_CANDIDATES, MAX_SCORE, MIN_SCORE, Detection
from edgemeta.tasks.detection.boxes import Cells, clipped, decode, has_area
from edgemeta.tasks.detection.extras import Corners, ExtrasReader
from edgemeta.tasks.detection.level import NONE, Candidates, Indices, Level, Outputs
from edgemeta.tasks.detection.suppress import suppress
from edgemeta.tasks.keypoints import Keypoint
from edgemeta.tasks.numbers import Float64, JoinedOutput, limited, softmax

_FIRST = np.zeros(1, np.int64)


class Object(NamedTuple):
    """An object. score: 0 .. 1. box: x0, y0, x1, y1 in pixels of the network's input, inside of it.

    keypoints, outline: where the detection gives them, in the same pixels; see `tasks.detection.extras`.
    """

    label: str
    score: float
    box: Box
    keypoints: tuple[Keypoint, ...] = ()
    outline: Corners = ()


class Detector:
    """Finds the objects that `Detection` defines. Built once for a model; used for many images."""

    def __init__(
        self,
        model: Model,
        thresholds: Mapping[str, float] | None = None,
        *,
        outlines: bool = True,
        by_label: bool = False,
    ) -> None:
        """thresholds: score thresholds of labels that have another one than the model's. Raises as `scores_of`.

        outlines: whether objects with masks get them: they take time, and who compares boxes needs none. by_label:
        without the model's label_overlap, for average precision, which asks for each label by itself.
        """
        task = model.task
        assert isinstance(task, Detection)
        self._task = task
        self._label_overlap = None if by_label else task.label_overlap
        self._image = model.input.shape[:2]
        self._least = scores_of(task, thresholds or {})
        self._levels = [Level(model, task, level, self._least) for level in task.levels]
        self._cells = Cells.joined([level.cells for level in self._levels])
        self._starts = np.cumsum([0, *(len(level.cells.place) for level in self._levels)])
        self._extras = ExtrasReader(model, task, self._cells, self._starts, outlines=outlines)
        self._scores = None if task.background else JointScores(task, self._levels)

    def objects(self, outputs: Outputs) -> tuple[Object, ...]:
        """Objects of one image, best first, from its outputs, each [H, W, C]."""
        rows, labels, scores = self._candidates(outputs)
        good = (scores >= self._least[labels]).nonzero()[0]
        if not len(good):
            return ()
        rows, labels, scores = rows[good], labels[good], scores[good]
        if len(rows) > MAX_CANDIDATES:
            best = np.sort(np.argsort(-scores, kind="stable")[:MAX_CANDIDATES])
            rows, labels, scores = rows[best], labels[best], scores[best]
        borders = np.searchsorted(rows, self._starts)
        numbers = [
            level.numbers(outputs, rows[begin:end] - start)
            for level, begin, end, start in zip(self._levels, borders, borders[1:], self._starts, strict=False)
            if begin < end
        ]
        boxes = decode(self._task, np.concatenate(numbers), self._cells[rows])
        inside = clipped(boxes, self._image)
        order = np.argsort(-scores, kind="stable")
        order = order[has_area(inside[order])]
        task = self._task
        limits = task.overlap_threshold, task.max_objects, self._label_overlap
        kept = order[suppress(boxes[order], labels[order], *limits)]
        names, corners = task.labels, inside[kept].tolist()
        extras = self._extras.read(outputs, rows[kept], inside[kept])
        return tuple(
            Object(names[label], score, (x0, y0, x1, y1), *beside)
            for label, score, (x0, y0, x1, y1), beside in zip(
                labels[kept].tolist(), scores[kept].tolist(), corners, extras, strict=True
            )
        )

    def _candidates(self, outputs: Outputs) -> Candidates:
        """Rows of all levels that may score enough, ascending; the best label of each; its score."""
        if self._scores is not None:
            found = [level.rows(outputs) for level in self._levels]
            rows = np.concatenate([part + start for part, start in zip(found, self._starts, strict=False)])
            return (rows, *self._scores.best(outputs, found, rows)) if len(rows) else NONE
        parts = [level.softmax_candidates(outputs) for level in self._levels]
        rows = np.concatenate([part[0] + start for part, start in zip(parts, self._starts, strict=False)])
        return rows, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])


class JointScores:
    """Scores without a background, of the rows of all levels at once."""

    def __init__(self, task: Detection, levels: Sequence[Level]) -> None:
        self._levels = levels
        self._softmax, self._powers = task.softmax, task.powers
        self._classes = JoinedOutput([(level.classes, len(level.cells.place)) for level in levels])
        gates = [(level.objectness, len(level.cells.place)) for level in levels if level.objectness is not None]
        self._objectness = JoinedOutput(gates) if len(gates) == len(levels) else None

    def best(self, outputs: Outputs, found: Sequence[Indices], rows: Indices) -> tuple[Indices, Float64]:
        """The label with the greatest logit in each row, the first one at a tie, and its score.

        found: rows of each level. rows [n]: the same, of all levels.
        """
        integers = np.concatenate(
            [
                level.classes.rows(outputs[level.classes.position])[part]
                for level, part in zip(self._levels, found, strict=True)
            ]
        )
        classes = self._classes
        values = classes.values(integers, rows) if self._softmax or not classes.has_one_step else integers
        labels, each = values.argmax(axis=1), np.arange(len(rows))
        if self._softmax:
            scores = softmax(limited(values))[each, labels]
        else:
            scores = classes.sigmoids(integers[each, labels], rows, labels)
        gate, power = self._powers
        if power != 1:
            scores = scores**power
        if self._objectness is None:
            return labels, scores
        gates = np.concatenate(
            [
                outputs[level.objectness.position].reshape(-1)[part]
                for level, part in zip(self._levels, found, strict=True)
                if level.objectness is not None
            ]
        )
        gated = self._objectness.sigmoids(gates, rows, _FIRST)
        return labels, (gated if gate == 1 else gated**gate) * scores


def scores_of(task: Detection, thresholds: Mapping[str, float]) -> Float64:
    """The least score [labels] of an object of each label. Raises ValueError for an unknown label or a wrong score."""
    for label, threshold in thresholds.items():
        if label not in task.labels:
            raise ValueError(f"the model has no label {label!r}, expected one of {', '.join(task.labels)}"[:300])
        if not MIN_SCORE <= threshold <= MAX_SCORE:
            raise ValueError(f"the threshold of {label!r} is {threshold}, expected {MIN_SCORE} .. {MAX_SCORE}")
    return np.array([thresholds.get(label, task.score_threshold) for label in task.labels], np.float64)
