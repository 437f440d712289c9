"""The objects of an image as `edgemeta.model.tasks.Detection` defines them, step by step: what `Detector` must equal.

Every number of every cell is computed, and candidates are compared one by one.
"""

from collections.abc import Mapping

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Box
from edgemeta.model.tasks import MAX_CANDIDATES, Detection, DetectionLevel
from edgemeta.tasks.detection.boxes import cells_of, clipped, decode, has_area, width_of
from edgemeta.tasks.detection.level import Outputs
from edgemeta.tasks.detection.objects import Object, scores_of
from edgemeta.tasks.numbers import Float64, Output, limited, sigmoid, softmax


def plain_objects(model: Model, outputs: Outputs, thresholds: Mapping[str, float] | None = None) -> tuple[Object, ...]:
    """Objects of one image, best first; arguments and result as those of `Detector`."""
    task = model.task
    assert isinstance(task, Detection)
    least = scores_of(task, thresholds or {})
    candidates: list[tuple[float, int, int, Float64]] = []  # minus score, index, label, box
    for box, logit, score in zip(*plain_numbers(model, outputs), strict=True):
        label = int(logit.argmax())
        if score[label] >= least[label]:
            candidates.append((-float(score[label]), len(candidates), label, box))
    size = model.input.shape[:2]
    kept: list[tuple[float, int, int, Float64]] = []
    for candidate in sorted(candidates, key=lambda each: each[:2])[:MAX_CANDIDATES]:
        _, _, label, box = candidate
        rivals = [other for _, _, name, other in kept if name == label]
        is_inside = has_area(clipped(box[np.newaxis], size))[0]
        if is_inside and not any(_overlap(box, other) > task.overlap_threshold for other in rivals):
            kept.append(candidate)
    return tuple(
        Object(task.labels[label], -score, _inside(box, size)) for score, _, label, box in kept[: task.max_objects]
    )


def plain_numbers(model: Model, outputs: Outputs) -> tuple[Float64, Float64, Float64]:
    """Boxes [n, 4], logits [n, labels] and scores [n, labels] of every cell and anchor, level after level."""
    task = model.task
    assert isinstance(task, Detection)
    boxes = [_boxes(model, task, level, outputs) for level in task.levels]
    rest = [_scores(model, task, level, outputs) for level in task.levels]
    logits, scores = ([part[i] for part in rest] for i in (0, 1))
    return np.concatenate(boxes), np.concatenate(logits), np.concatenate(scores)


def _numbers(model: Model, name: str, width: int, outputs: Outputs) -> Float64:
    """All numbers [rows, width] of an output."""
    output = Output(model, name, width)
    integers = output.rows(outputs[output.position])
    return output.values(integers, np.arange(len(integers)))


def _boxes(model: Model, task: Detection, level: DetectionLevel, outputs: Outputs) -> Float64:
    height, width, _ = outputs[model.outputs.index(level.classes)].shape
    cells = cells_of(level, (height, width), model.input.shape[:2])
    if level.boxes is None:
        return decode(task, np.empty((len(cells.place), 0)), cells)
    return decode(task, limited(_numbers(model, level.boxes, width_of(task), outputs)), cells)


def _scores(model: Model, task: Detection, level: DetectionLevel, outputs: Outputs) -> tuple[Float64, Float64]:
    """Logits and scores [rows, labels]."""
    logits = _numbers(model, level.classes, len(task.labels) + task.background, outputs)
    if task.background:
        return logits[:, 1:], softmax(limited(logits))[:, 1:]
    gate, power = task.powers
    scores = softmax(limited(logits)) if task.softmax else sigmoid(limited(logits))
    scores = scores if power == 1 else scores**power
    if level.objectness is not None:
        gates = sigmoid(limited(_numbers(model, level.objectness, 1, outputs)))
        scores = (gates if gate == 1 else gates**gate) * scores
    return logits, scores


def _overlap(a: Float64, b: Float64) -> float:
    """Intersection over union."""
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return float(shared / union)


def _inside(box: Float64, size: tuple[int, int]) -> Box:
    x0, y0, x1, y1 = clipped(box[np.newaxis], size)[0].tolist()
    return x0, y0, x1, y1
