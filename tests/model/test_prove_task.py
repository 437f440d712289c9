"""Each requirement of a task, and that good models of every task pass and are stored."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model.document import task_to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.prove import prove
from edgemeta.model.prove_task import prove_outputs
from edgemeta.model.tasks import (
    Classification,
    Detection,
    DetectionLevel,
    Embedding,
    Keypoints,
    MultiLabel,
    Raw,
    Rejection,
    Segmentation,
)
from edgemeta.model.weights import FixedWeights
from tests.conformance.cases import CASES
from tests.tasks.models import colour_map_model

GRID, ANCHORS, VECTOR = (
    next(case.model for case in CASES if case.name == name)
    for name in ("outputs-grid", "outputs-anchors", "outputs-embedding")
)


def with_task(model: Model, **changes: Any) -> Model:
    return replace(model, task=replace(model.task, **changes))


def with_level(model: Model, **changes: Any) -> Model:
    assert isinstance(model.task, Detection)
    first, *others = model.task.levels
    return with_task(model, levels=(replace(first, **changes), *others))


def scaled(model: Model, name: str, scale: float) -> Model:
    layers = [
        replace(layer, output=replace(layer.output, scale=scale)) if layer.name == name else layer
        for layer in model.layers
    ]
    return replace(model, layers=tuple(layers))


def with_rejection(
    threshold: int, evidence: tuple[str, ...] = ("familiarity",), outputs: tuple[str, ...] = ()
) -> Model:
    """A classifier with a second dense layer, whose only integer is compared with the threshold."""
    model = CASES[0].model
    logits = model.layers[-1]
    assert isinstance(logits, Dense)
    assert isinstance(logits.weights, FixedWeights)
    row = FixedWeights(logits.weights.values[:1], logits.weights.bits, logits.weights.scale[:1])
    shape = (1, 1, 1)
    last = Dense("familiarity", logits.input, replace(logits.output, shape=shape), weights=row)
    return replace(
        with_task(model, rejection=Rejection(threshold, evidence)),
        layers=(*model.layers, last),
        outputs=outputs or (logits.name, last.name),
        self_test=None,
    )


def several_scales() -> Model:
    model = colour_map_model(Segmentation(("red", "green", "blue")))
    (conv,) = model.layers
    assert isinstance(conv, Conv)
    assert isinstance(conv.weights, FixedWeights)
    return replace(model, layers=(replace(conv, weights=replace(conv.weights, scale=np.array([1.0, 2.0, 1.0]))),))


LEVEL = GRID.task.levels[0] if isinstance(GRID.task, Detection) else DetectionLevel("", "")

WRONG: dict[str, tuple[Callable[[], Model], str]] = {
    "no labels": (lambda: replace(VECTOR, task=MultiLabel(())), "there are no labels"),
    "a label less": (lambda: with_task(GRID, labels=("a", "b", "c", "d")), r"shape \[6, 8, 5\], expected \[6, 8, 4\]"),
    "labels and logits": (
        lambda: replace(VECTOR, task=MultiLabel(("a", "b"))),
        r"shape \[1, 1, 21\], expected \[1, 1, 2\], one logit per label",
    ),
    "a map as a vector": (
        lambda: replace(CASES[0].model, layers=CASES[0].model.layers[:1], outputs=("conv0",), task=Embedding()),
        "expected .1, 1, 16., a vector",
    ),
    "a vector of two outputs": (
        lambda: replace(GRID, task=Embedding()),
        "task embedding has 6 outputs, expected 1",
    ),
    "a segmentation of several outputs": (
        lambda: replace(GRID, task=Segmentation(("a", "b"))),
        "has 6 outputs, expected 1",
    ),
    "a segmentation with a channel more": (
        lambda: replace(VECTOR, task=Segmentation(("a", "b"))),
        "has 21 channels, expected 2, one for each label",
    ),
    "a share above 1": (lambda: replace(VECTOR, task=Segmentation(("a",), 0.5, 1.5)), "the least share"),
    "a map of several scales": (several_scales, "the logits have a scale per channel"),
    "keypoints of odd numbers": (
        lambda: replace(VECTOR, task=Keypoints(("a", "b"))),
        r"expected \[1, 1, 4\], x, y of each",
    ),
    "a name of keypoints twice": (lambda: replace(VECTOR, task=Keypoints(("a",) * 7, "xyz")), "keypoint occurs more"),
    "keypoints of no name": (lambda: replace(VECTOR, task=Keypoints(())), "the number of keypoints"),
    "raw outputs without names": (lambda: replace(GRID, task=Raw(("a",))), "task raw has 1 names for 6 outputs"),
    "a name of raw outputs twice": (lambda: replace(GRID, task=Raw(("a",) * 6)), "a name of an output occurs more"),
    "raw outputs of nameless letters": (lambda: replace(VECTOR, task=Raw(("a\n",))), "a name of an output"),
    "an evidence that is no output": (
        lambda: with_rejection(0, ("pool",)),
        r"and then those of the rejection, \['pool'\]",
    ),
    "an evidence before the logits": (
        lambda: with_rejection(0, outputs=("familiarity", "dense1")),
        r"expected the logits and then those of the rejection, \['familiarity'\]",
    ),
    "an evidence of several integers": (
        lambda: with_rejection(0, ("dense1",), ("familiarity", "dense1")),
        r"output 'familiarity' has shape \[1, 1, 1\], expected \[1, 1, 5\], one logit per label",
    ),
    "an output without a rule": (lambda: with_rejection(0, ()), "task classification has 2 outputs, expected 1"),
    "a threshold that no integer reaches": (
        lambda: with_rejection(1 << 31),
        "the threshold of the rejection is 2147483648, expected -2147483648 .. 2147483647",
    ),
    "threshold of 1": (lambda: with_task(GRID, score_threshold=1.0), "the score threshold is 1.0, expected 0.001"),
    "threshold that is no number": (
        lambda: with_task(GRID, overlap_threshold=float("nan")),
        "overlap threshold is nan",
    ),
    "overlap that no boxes exceed": (
        lambda: with_task(GRID, overlap_threshold=1.0),
        r"overlap threshold is 1\.0, expected above 0 and below 1",
    ),
    "overlap of any boxes": (lambda: with_task(GRID, overlap_threshold=0.0), r"overlap threshold is 0\.0"),
    "no objects": (lambda: with_task(GRID, max_objects=0), "the greatest number of objects is 0"),
    "no levels": (lambda: with_task(GRID, levels=()), "a detection has no levels"),
    "an unknown output": (
        lambda: with_level(GRID, boxes="nowhere"),
        "'nowhere' of a detection is not an output",
    ),
    "an output twice": (lambda: with_level(GRID, objectness=LEVEL.boxes), "does not name each output exactly once"),
    "an output unused": (
        lambda: with_task(replace(GRID, outputs=GRID.outputs), levels=GRID.task.levels[:1]),  # type: ignore[union-attr]
        "does not name each output exactly once",
    ),
    "objectness of one level": (
        lambda: with_level(GRID, objectness=None),
        "some levels of a detection have objectness, expected all or none",
    ),
    "anchors for yolox": (lambda: with_level(GRID, anchors=((1.0, 2.0),)), "'yolox' does not use"),
    "no anchors for yolov3": (lambda: with_task(GRID, decoding="yolov3"), "the number of a level's anchors is 0"),
    "an anchor of 0": (
        lambda: with_level(ANCHORS, anchors=((1.0, 0.0),) * 3),
        "an anchor's side is not above 0",
    ),
    "boxes of yolov8": (lambda: with_task(GRID, decoding="yolov8"), r"shape \[6, 8, 4\], expected \[6, 8, 64\]"),
    "a background beside objectness": (lambda: with_task(GRID, background=True), "beside a background class"),
    "an output twice in the list": (
        lambda: replace(GRID, outputs=(*GRID.outputs, GRID.outputs[0])),
        "occurs more than once",
    ),
    "an output that is the input": (
        lambda: replace(VECTOR, outputs=(*VECTOR.outputs, "input")),
        "output 'input' is not a layer",
    ),
    "no outputs": (lambda: replace(CASES[0].model, layers=CASES[0].model.layers[:1], outputs=()), "outputs is 0"),
    "steps per channel and another scale": (
        lambda: scaled(GRID, LEVEL.boxes, 0.123),
        "have scale 0.123, expected the input's",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_each_error_has_its_text(wrong: str) -> None:
    make, text = WRONG[wrong]
    with pytest.raises(ModelError, match=text):
        prove(make())


@pytest.mark.parametrize("model", [GRID, ANCHORS, VECTOR], ids=lambda model: model.name)
def test_every_task_is_stored(model: Model) -> None:
    restored = decode(encode(model))
    assert restored.task == model.task
    assert restored.outputs == model.outputs
    assert encode(restored) == encode(model)


@pytest.mark.parametrize("model", [with_rejection(-5), with_task(CASES[0].model, rejection=Rejection(7))])
def test_a_rejection_is_stored(model: Model) -> None:
    restored = decode(encode(model))
    assert restored.task == model.task
    assert encode(restored) == encode(model)


def test_a_classification_without_a_rejection_is_stored_as_before() -> None:
    assert sorted(task_to_document(Classification(("a", "b")))) == ["kind", "labels"]
    assert task_to_document(Classification(("a",), rejection=Rejection(3)))["rejection"] == {"threshold": 3}


def test_a_threshold_of_several_labels_is_stored() -> None:
    model = replace(VECTOR, task=MultiLabel(tuple(f"label {i}" for i in range(21)), 0.25))
    assert decode(encode(model)).task == model.task


def test_steps_are_those_of_each_channel() -> None:
    boxes = next(layer for layer in GRID.layers if layer.name == LEVEL.boxes)
    assert isinstance(boxes, Conv)
    read = next(layer for layer in GRID.layers if layer.name == boxes.input)
    assert GRID.steps(LEVEL.boxes).tolist() == (read.output.scale * boxes.weights.scale).tolist()
    assert GRID.steps(LEVEL.classes).shape == (1,)
    assert isinstance(CASES[0].model.task, Classification)
    assert CASES[0].model.steps(CASES[0].model.outputs[0]).tolist() == [CASES[0].model.output_types[0].scale]


def test_a_detection_has_at_most_2_to_the_20_cells() -> None:
    task = Detection(("a",), "yolox", (DetectionLevel("boxes", "classes"),))
    prove_outputs(task, {"boxes": (1024, 1024, 4), "classes": (1024, 1024, 1)})
    with pytest.raises(ModelError, match="a detection has 1049600 cells, expected at most 1048576"):
        prove_outputs(task, {"boxes": (1025, 1024, 4), "classes": (1025, 1024, 1)})
