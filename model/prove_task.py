"""Proof that a model's outputs are those that its task wants."""

import math
from collections.abc import Mapping
from typing import assert_never

from edgemeta.model.graph import Model
from edgemeta.model.layers import Shape
from edgemeta.model.require import require, require_between, require_text, shown
from edgemeta.model.tasks import (
    MAX_CANDIDATES,
    MAX_KEYPOINTS,
    MAX_NUMBERS,
    MAX_SCORE,
    MIN_SCORE,
    WITH_ANCHORS,
    WITHOUT_ANCHORS,
    Classification,
    Detection,
    DetectionLevel,
    Embedding,
    Keypoints,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Raw,
    Rejection,
    Segmentation,
    Task,
    compares_channels,
    labels_of,
    task_name,
)

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 100.0
"""Beyond these temperatures one score is nearly 1, or all scores are nearly equal."""
MAX_ANCHORS = 16
MAX_SEGMENT_LABELS = 1000
MAX_CELLS = 1 << 20
"""Cells times anchors of all levels."""
MAX_PIXELS = 1e6
"""Sides of anchors and strides."""
MIN_STEP, MAX_STEP = 1e-30, 1e30
"""Steps of outputs whose numbers are computed: distinct integers are distinct finite numbers."""
MAX_BINS = 64
"""Numbers for each distance in the decoding "yolov8"."""
MIN_FACTOR, MAX_FACTOR = 1e-3, 1e3
"""Variances and powers of scores."""


def prove_task(model: Model) -> None:
    """Raise ModelError unless labels, settings, outputs and their steps meet the docstrings of `tasks`."""
    shapes = {name: kind.shape for name, kind in zip(model.outputs, model.output_types, strict=True)}
    prove_outputs(model.task, shapes)
    if compares_channels(model.task):
        is_comparable = len(model.steps(model.outputs[0])) == 1
        require(is_comparable, "the logits have a scale per channel, expected one for all, as they are compared")
        if isinstance(model.task, Classification) and model.task.rejection is not None:
            _prove_evidence(model, model.task.rejection)
    else:
        _prove_steps(model)


def prove_outputs(task: Task, outputs: Mapping[str, Shape]) -> None:
    """Raise ModelError unless labels, settings and the shapes of the outputs meet the docstrings of `tasks`."""
    _prove_labels(task)
    match task:
        case Classification():
            require_between(task.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE, "the temperature")
            _prove_classification(task, outputs)
        case MultiLabel():
            require_between(task.score_threshold, MIN_SCORE, MAX_SCORE, "the score threshold")
            _prove_vector(task, outputs, len(task.labels), "one logit per label")
        case Embedding():
            _prove_vector(task, outputs, None, "a vector")
        case Detection():
            _prove_detection(task, outputs)
        case Segmentation():
            _prove_segmentation(task, outputs)
        case Keypoints():
            _prove_keypoints(task, outputs)
        case Raw():
            _prove_raw(task, outputs)
        case _:
            assert_never(task)


def _prove_labels(task: Task) -> None:
    labels = labels_of(task)
    require(len(labels) > 0 or isinstance(task, Embedding | Keypoints | Raw), "there are no labels")
    for label in labels:
        require_text(label, "a label")


def _prove_steps(model: Model) -> None:
    for name in model.outputs:
        for step in model.steps(name):
            require_between(float(step), MIN_STEP, MAX_STEP, f"a step of output {name!r}")


def _prove_vector(task: Task, outputs: Mapping[str, Shape], count: int | None, what: str) -> None:
    require(len(outputs) == 1, f"task {task_name(task)} has {len(outputs)} outputs, expected 1")
    ((name, shape),) = outputs.items()
    expected = (1, 1, shape[2] if count is None else count)
    require(shape == expected, f"output {name!r} has shape {list(shape)}, expected {list(expected)}, {what}")


def _prove_classification(task: Classification, outputs: Mapping[str, Shape]) -> None:
    evidence = () if task.rejection is None else task.rejection.outputs
    if not evidence:
        _prove_vector(task, outputs, len(task.labels), "one logit per label")
        return
    logits, *others = outputs
    require(
        others == list(evidence),
        f"the outputs are {shown(list(outputs))}, expected the logits and then those of the rejection, "
        f"{shown(list(evidence))}",
    )
    _prove_vector(task, {logits: outputs[logits]}, len(task.labels), "one logit per label")
    for name in evidence:
        _prove_vector(task, {name: outputs[name]}, 1, "the evidence of the rejection")


def _prove_segmentation(task: Segmentation, outputs: Mapping[str, Shape]) -> None:
    require_between(task.score_threshold, MIN_SCORE, MAX_SCORE, "the score threshold")
    require_between(task.least_share, 0.0, 1.0, "the least share of a label that is present")
    require(len(task.labels) <= MAX_SEGMENT_LABELS, f"there are more than {MAX_SEGMENT_LABELS} labels")
    require(len(outputs) == 1, f"task segmentation has {len(outputs)} outputs, expected 1")
    ((name, shape),) = outputs.items()
    count = len(task.labels)
    require(shape[2] == count, f"output {name!r} has {shape[2]} channels, expected {count}, one for each label")


def _prove_keypoints(task: Keypoints, outputs: Mapping[str, Shape]) -> None:
    _prove_names(task.names)
    _prove_vector(task, outputs, len(task.names) * len(task.layout), f"{', '.join(task.layout)} of each point")


def _prove_names(names: tuple[str, ...]) -> None:
    require_between(len(names), 1, MAX_KEYPOINTS, "the number of keypoints")
    for name in names:
        require_text(name, "a name of a keypoint")
    require(len(set(names)) == len(names), "a name of a keypoint occurs more than once")


def _prove_raw(task: Raw, outputs: Mapping[str, Shape]) -> None:
    for name in task.names:
        require_text(name, "a name of an output")
    require(len(set(task.names)) == len(task.names), "a name of an output occurs more than once")
    require(len(task.names) == len(outputs), f"task raw has {len(task.names)} names for {len(outputs)} outputs")
    numbers = sum(math.prod(shape) for shape in outputs.values())
    require(numbers <= MAX_NUMBERS, f"the raw outputs have {numbers} numbers, expected at most {MAX_NUMBERS}")


def _prove_evidence(model: Model, rejection: Rejection) -> None:
    kinds = model.output_types[1:] or model.output_types
    scales = {float(step) for name in rejection.outputs for step in model.steps(name)}
    require(len(scales) <= 1, "the outputs of the rejection have several scales, expected one, as they are added")
    lo, hi = sum(kind.lo for kind in kinds), sum(kind.hi for kind in kinds)
    require_between(rejection.threshold, lo, hi, "the threshold of the rejection")


def _prove_detection(task: Detection, shapes: Mapping[str, Shape]) -> None:
    require_between(task.score_threshold, MIN_SCORE, MAX_SCORE, "the score threshold")
    is_share = 0 < task.overlap_threshold < 1
    require(is_share, f"the overlap threshold is {task.overlap_threshold}, expected above 0 and below 1")
    is_share = task.label_overlap is None or 0 < task.label_overlap < 1
    require(is_share, f"the overlap of labels is {task.label_overlap}, expected above 0 and below 1")
    require_between(task.max_objects, 1, MAX_CANDIDATES, "the greatest number of objects")
    require(len(task.levels) > 0, "a detection has no levels")
    gated = [level.objectness is not None for level in task.levels]
    require(all(gated) or not any(gated), "some levels of a detection have objectness, expected all or none")
    for name in task.outputs:
        require(name in shapes, f"{shown(name)} of a detection is not an output")
    require(sorted(task.outputs) == sorted(shapes), "a detection does not name each output exactly once")
    extras = _prove_extras(task, shapes)
    require_between(task.bins, 2, MAX_BINS, "the number of bins")
    require_between(task.origin, 0.0, 1.0, "the origin")
    for factor in (*task.variances, *task.powers):
        require_between(factor, MIN_FACTOR, MAX_FACTOR, "a variance or power")
    is_gated = not task.softmax or (all(gated) and not task.background)
    require(is_gated, "scores by softmax have no objectness beside them, or a background")
    cells = sum(_prove_level(level, task, shapes, extras) for level in task.levels)
    require(cells <= MAX_CELLS, f"a detection has {cells} cells, expected at most {MAX_CELLS}")


def _prove_extras(task: Detection, shapes: Mapping[str, Shape]) -> int:
    """Check what objects have beside their boxes; returns how many numbers of a cell and anchor these are."""
    has_extras = task.extras is not None
    require(
        all((level.extras is not None) == has_extras for level in task.levels),
        "the levels of a detection have extras if it says what these are, expected both or neither",
    )
    match task.extras:
        case ObjectPoints(names=names, layout=layout) as points:
            _prove_names(names)
            require_between(points.origin, 0.0, 1.0, "the origin of points")
            require_between(points.factor, MIN_FACTOR, MAX_FACTOR, "the factor of points")
            return len(names) * len(layout)
        case ObjectMasks(prototypes=name):
            height, width, channels = shapes[name]
            require(height * width <= MAX_CELLS, f"the prototypes have {height * width} cells, at most {MAX_CELLS}")
            return channels
        case None:
            return 0


def _prove_level(level: DetectionLevel, task: Detection, shapes: Mapping[str, Shape], extras: int) -> int:
    """Check the outputs of a level, of so many extra numbers; returns its number of cells times anchors."""
    anchors = len(level.anchors)
    if task.decoding in WITHOUT_ANCHORS:
        require(not anchors, f"a level has anchors, which the decoding {task.decoding!r} does not use")
    elif task.decoding in WITH_ANCHORS or anchors:
        require_between(anchors, 1, MAX_ANCHORS, "the number of a level's anchors")
        sides = [side for anchor in level.anchors for side in anchor]
        require(all(0 < side <= MAX_PIXELS for side in sides), "an anchor's side is not above 0 and at most 1e6")
    anchors = anchors or 1
    is_cell = task.decoding == "cells"
    require(is_cell == (level.boxes is None), f"a level's boxes are {level.boxes!r} in the decoding {task.decoding!r}")
    require(not (task.background and level.objectness), "a level has an objectness output beside a background class")
    stride = level.stride or (1.0, 1.0)
    require(all(0 < side <= MAX_PIXELS for side in stride), "a level's stride is not above 0 and at most 1e6")
    height, width, _ = shapes[level.boxes or level.classes]
    box = 4 * task.bins if task.decoding == "yolov8" else 4
    has_boxes = level.boxes is not None and box == 4
    require(level.sizes is None or has_boxes, "a level has sizes beside boxes that are not of 4 numbers")
    sizes = 0 if level.sizes is None else 2
    expected = {
        level.boxes: (box - sizes) * anchors,
        level.sizes: sizes * anchors,
        level.classes: (len(task.labels) + task.background) * anchors,
        level.objectness: anchors,
        level.extras: extras * anchors,
    }
    for name, channels in expected.items():
        if name is not None:
            shape = (height, width, channels)
            require(shapes[name] == shape, f"output {name!r} has shape {list(shapes[name])}, expected {list(shape)}")
    return height * width * anchors
