"""Proof that a model's outputs are those that its task wants."""

from collections import Counter
from typing import assert_never

from edgemeta.model.graph import Model
from edgemeta.model.layers import Shape
from edgemeta.model.require import require, require_between, require_text, shown
from edgemeta.model.tasks import Classification, Detection, DetectionLevel, Embedding, MultiLabel, labels_of

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 100.0
"""Beyond these temperatures one score is nearly 1, or all scores are nearly equal."""
MAX_ANCHORS = 16
"""Anchors of a cell."""
MAX_CANDIDATES = 1 << 20
"""Cells times anchors of all levels."""
MAX_OBJECTS = 10_000
DISTANCES = 16
"""Numbers for each distance in the decoding "yolov8"."""


def prove_task(model: Model) -> None:
    """Raise ModelError unless labels, settings and outputs meet the docstrings of `tasks`."""
    task = model.task
    _prove_labels(task)
    match task:
        case Classification():
            require_between(task.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE, "the temperature")
            _prove_vector(model, "classification", len(task.labels), "one logit per label")
            layer = next(layer for layer in model.layers if layer.name == model.outputs[0])
            is_comparable = len(model.steps(layer.name)) == 1
            require(is_comparable, "the logits have a scale per channel, expected one for all, as they are compared")
        case MultiLabel():
            _prove_threshold(task.score_threshold, "the score threshold")
            _prove_vector(model, "multi-label classification", len(task.labels), "one logit per label")
        case Embedding():
            _prove_vector(model, "embedding", None, "a vector")
        case Detection():
            _prove_detection(model, task)
        case _:
            assert_never(task)


def _prove_labels(task: Classification | MultiLabel | Detection | Embedding) -> None:
    labels = labels_of(task)
    require(len(labels) > 0 or isinstance(task, Embedding), "there are no labels")
    for label in labels:
        require_text(label, "a label")
    twice = next((label for label, count in Counter(labels).items() if count > 1), None)
    require(twice is None, f"label {twice!r} occurs more than once")


def _prove_threshold(threshold: float, what: str) -> None:
    require(0 < threshold < 1, f"{what} is {threshold}, expected above 0 and below 1")


def _prove_vector(model: Model, task: str, count: int | None, what: str) -> None:
    article = "an" if task[0] in "aeiou" else "a"
    require(len(model.outputs) == 1, f"{article} {task} has {len(model.outputs)} outputs, expected 1")
    shape = model.output_types[0].shape
    expected = (1, 1, shape[2] if count is None else count)
    require(
        shape == expected, f"output {model.outputs[0]!r} has shape {list(shape)}, expected {list(expected)}, {what}"
    )


def _prove_detection(model: Model, task: Detection) -> None:
    _prove_threshold(task.score_threshold, "the score threshold")
    _prove_threshold(task.overlap_threshold, "the overlap threshold")
    require_between(task.max_objects, 1, MAX_OBJECTS, "the greatest number of objects")
    require(len(task.levels) > 0, "a detection has no levels")
    named = [name for level in task.levels for name in (level.boxes, level.objectness, level.classes) if name]
    for name in named:
        require(name in model.outputs, f"{shown(name)} of a detection's level is not an output")
    require(sorted(named) == sorted(model.outputs), "the levels of a detection do not name each output exactly once")
    shapes = {name: kind.shape for name, kind in zip(model.outputs, model.output_types, strict=True)}
    candidates = sum(_prove_level(level, task, shapes) for level in task.levels)
    require(candidates <= MAX_CANDIDATES, f"a detection has {candidates} candidates, expected at most {MAX_CANDIDATES}")


def _prove_level(level: DetectionLevel, task: Detection, shapes: dict[str, Shape]) -> int:
    """Check the outputs of a level; returns its number of candidates."""
    wants_anchors = task.decoding in ("yolov3", "ssd")
    anchors = len(level.anchors) if wants_anchors else 1
    if wants_anchors:
        require_between(anchors, 1, MAX_ANCHORS, "the number of a level's anchors")
        require(all(0 < side < 1e6 for anchor in level.anchors for side in anchor), "an anchor's side is not above 0")
    else:
        require(not level.anchors, f"a level has anchors, which the decoding {task.decoding!r} does not use")
    require(not (task.background and level.objectness), "a level has an objectness output beside a background class")
    height, width, _ = shapes[level.boxes]
    box = 4 * DISTANCES if task.decoding == "yolov8" else 4
    expected = {
        level.boxes: box * anchors,
        level.classes: (len(task.labels) + task.background) * anchors,
        level.objectness: anchors,
    }
    for name, channels in expected.items():
        if name is not None:
            shape = (height, width, channels)
            require(shapes[name] == shape, f"output {name!r} has shape {list(shapes[name])}, expected {list(shape)}")
    return height * width * anchors
