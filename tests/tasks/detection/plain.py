"""The objects of an image as `edgemeta.model.tasks.Detection` defines them, step by step: what `Detector` must equal.

Every number of every cell is computed, and candidates are compared one by one.
"""

from collections.abc import Mapping

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Box
from edgemeta.model.tasks import MAX_CANDIDATES, Detection, DetectionLevel, ObjectMasks, ObjectPoints
from edgemeta.tasks.detection.boxes import cells_of, clipped, decode, has_area, width_of
from edgemeta.tasks.detection.extras import Extras
from edgemeta.tasks.detection.level import Outputs
from edgemeta.tasks.detection.objects import Object, scores_of
from edgemeta.tasks.detection.outlines import outline
from edgemeta.tasks.keypoints import Keypoint
from edgemeta.tasks.numbers import LIMIT, Float64, Output, limited, sigmoid, softmax


def plain_objects(model: Model, outputs: Outputs, thresholds: Mapping[str, float] | None = None) -> tuple[Object, ...]:
    """Objects of one image, best first; arguments and result as those of `Detector`."""
    task = model.task
    assert isinstance(task, Detection)
    least = scores_of(task, thresholds or {})
    candidates: list[tuple[float, int, int, Float64]] = []  # minus score, row, label, box
    for row, (box, logit, score) in enumerate(zip(*plain_numbers(model, outputs), strict=True)):
        label = int(logit.argmax())
        if score[label] >= least[label]:
            candidates.append((-float(score[label]), row, label, box))
    size = model.input.shape[:2]
    kept: list[tuple[float, int, int, Float64]] = []
    for candidate in sorted(candidates, key=lambda each: each[:2])[:MAX_CANDIDATES]:
        _, _, label, box = candidate
        rivals = [other for _, _, name, other in kept if name == label]
        is_inside = has_area(clipped(box[np.newaxis], size))[0]
        if is_inside and not any(_overlap(box, other) > task.overlap_threshold for other in rivals):
            kept.append(candidate)
    if task.label_overlap is not None:
        every, kept = kept, []
        for candidate in every:
            rivals = [other for _, _, name, other in kept if name != candidate[2]]
            if not any(_overlap(candidate[3], other) > task.label_overlap for other in rivals):
                kept.append(candidate)
    return tuple(
        Object(task.labels[label], -score, _inside(box, size), *_extras(model, task, outputs, row, _inside(box, size)))
        for score, row, label, box in kept[: task.max_objects]
    )


def _extras(model: Model, task: Detection, outputs: Outputs, row: int, box: Box) -> Extras:
    """What belongs to the box of a row of all levels, number by number."""
    for level in task.levels:
        height, width, _ = outputs[model.outputs.index(level.classes)].shape
        anchors = level.anchors or (None,)
        if row < height * width * len(anchors):
            break
        row -= height * width * len(anchors)
    place, number = divmod(row, len(anchors))
    y, x = divmod(place, width)
    stride = model.input.shape[1] / width, model.input.shape[0] / height
    if level.extras is None:
        return Extras()
    every = _numbers(model, level.extras, model.types[level.extras].shape[2] // len(anchors), outputs)
    numbers = every[y * width * len(anchors) + x * len(anchors) + number].tolist()
    if isinstance(task.extras, ObjectPoints):
        meant, points = task.extras, []
        sides = (anchors[number] or stride) if meant.unit == "anchor" else stride
        for name in meant.names:
            t, numbers = numbers[: len(meant.layout)], numbers[len(meant.layout) :]
            t = [min(max(each, -LIMIT), LIMIT) for each in t]
            across, down = (
                (cell + meant.origin) * step + meant.factor * shift * side
                for cell, step, shift, side in zip((x, y), stride, t, sides, strict=False)
            )
            score = float(sigmoid(np.array(t[2]))) if len(t) > 2 else None
            points.append(Keypoint(name, across, down, score))
        return Extras(keypoints=tuple(points))
    assert isinstance(task.extras, ObjectMasks)
    kind = model.types[task.extras.prototypes]
    grid = outputs[model.outputs.index(task.extras.prototypes)].astype(np.float64) - kind.zero_point
    coefficients = np.array(numbers)
    if len(np.unique(model.steps(level.extras))) == 1:
        coefficients = np.rint(coefficients / model.steps(level.extras)[0])
    if len(np.unique(model.steps(task.extras.prototypes))) > 1:
        grid = grid * model.steps(task.extras.prototypes)
    sides = model.input.shape[1] / kind.shape[1], model.input.shape[0] / kind.shape[0]
    low = [max(int(box[i] // sides[i]) - 1, 0) for i in (0, 1)]
    high = [int(-(-box[2 + i] // sides[i])) + 1 for i in (0, 1)]
    corners = outline(grid[low[1] : high[1], low[0] : high[0]] @ coefficients)
    return Extras(
        outline=tuple(
            (min(max((a + low[0]) * sides[0], box[0]), box[2]), min(max((b + low[1]) * sides[1], box[1]), box[3]))
            for a, b in corners.tolist()
        )
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
