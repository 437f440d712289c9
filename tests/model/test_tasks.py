"""Task records: what a file keeps of them, and which are refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode
from edgemeta.model.graph import Model
from edgemeta.model.prove import prove
from edgemeta.model.tasks import (
    Detection,
    DetectionLevel,
    Embedding,
    Keypoints,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Raw,
    Segmentation,
    Task,
    labels_of,
)
from tests.tasks.detection.models import DECODINGS, detection_model
from tests.tasks.models import colour_map_model, vector_model


@pytest.mark.parametrize("decoding", DECODINGS)
def test_a_detection_is_stored(decoding: str) -> None:
    plain = detection_model(decoding)
    settings = {"score_threshold": 0.25, "overlap_threshold": 0.65, "max_objects": 7, "label_overlap": 0.75}
    for task in (plain.task, replace(plain.task, **settings), _with_strides(plain.task)):
        assert decode(encode(replace(plain, task=task))).task == task
    assert b"score_threshold" not in encode(plain)
    assert b"label_overlap" not in encode(plain)


def _with_strides(task: Task) -> Detection:
    assert isinstance(task, Detection)
    return replace(task, box_order="yxhw", levels=tuple(replace(each, stride=(7.5, 8.0)) for each in task.levels))


def test_other_tasks_are_stored() -> None:
    for task in (MultiLabel(("a", "b")), MultiLabel(("a", "b"), 0.7), Embedding(), Raw(("age",)), Keypoints(("eye",))):
        assert decode(encode(vector_model(task, 2))).task == task
    for each in (Segmentation(("a", "b")), Segmentation(("a",), 0.7, 0.2)):
        assert decode(encode(colour_map_model(each))).task == each
    assert labels_of(Embedding()) == ()


def changed(**settings: object) -> Callable[[Detection], Detection]:
    return lambda task: replace(task, **settings)


def level(**settings: object) -> Callable[[Detection], Detection]:
    return lambda task: replace(task, levels=(replace(task.levels[0], **settings), *task.levels[1:]))


FAULTS: dict[str, tuple[str, Callable[[Detection], Detection], str]] = {
    "no levels": ("yolox", changed(levels=()), "a detection has no levels"),
    "threshold 0": ("yolox", changed(score_threshold=0.0), r"the score threshold is 0\.0, expected 0\.001 \.\. 0\.999"),
    "overlap 1": ("yolox", changed(overlap_threshold=1.0), "overlap threshold is 1.0, expected above 0 and below 1"),
    "labels overlap by 1": ("yolox", changed(label_overlap=1.0), "overlap of labels is 1.0, expected above 0 and bel"),
    "too many objects": ("yolox", changed(max_objects=1001), "number of objects is 1001, expected 1 .. 1000"),
    "no such output": ("yolox", level(boxes="x"), "'x' of a detection is not an output"),
    "an output twice": ("yolox", level(boxes="boxes1"), "does not name each output exactly once"),
    "one label more": ("yolox", changed(labels=tuple("abcdef")), r"'classes0' has shape \[8, 6, 5\], expected"),
    "anchors of none": ("yolox", level(anchors=((1.0, 1.0),)), "anchors, which the decoding 'yolox' does not use"),
    "no anchors": ("ssd", level(anchors=()), "number of a level's anchors is 0"),
    "anchor of no width": ("ssd", level(anchors=((0.0, 1.0),) * 3), "anchor's side is not above 0"),
    "anchor NaN": ("ssd", level(anchors=((float("nan"), 1.0),) * 3), "anchor's side is not above 0"),
    "stride 0": ("ssd", level(stride=(8.0, 0.0)), "stride is not above 0"),
    "a bin": ("yolov8", changed(bins=1), "the number of bins is 1, expected 2 .. 64"),
    "an origin in another cell": ("yolov8", changed(origin=1.5), "the origin is 1.5, expected 0"),
    "a variance of 0": ("ssd", changed(variances=(0.0, 0.2)), "a variance or power is 0.0, expected 0.001"),
    "a power of 0": ("yolox", changed(powers=(0.0, 1.0)), "a variance or power is 0.0, expected 0.001"),
    "softmax alone": ("yolov8", changed(softmax=True), "by softmax have no objectness beside them"),
    "cells with boxes": ("yolov8", changed(decoding="cells"), "boxes are 'boxes0' in the decoding 'cells'"),
    "no boxes": ("cells with background", changed(decoding="linear"), "boxes are None in the decoding 'linear'"),
    "extras that nothing explains": ("yolov8 with points", changed(extras=None), "extras if it says what these are"),
    "extras of one level": ("yolov8 with points", level(extras=None), "does not name each output"),
    "one point more": (
        "ssd with points",
        changed(extras=ObjectPoints(("a", "b", "c", "d"))),
        r"'extras0' has shape \[8, 6, 18\], expected \[8, 6, 24\]",
    ),
    "points of one name": ("ssd with points", changed(extras=ObjectPoints(("a", "a", "c"))), "occurs more than once"),
    "points far away": ("ssd with points", changed(extras=ObjectPoints(tuple("abc"), factor=1e4)), "factor of points"),
    "prototypes of nowhere": ("yolox with masks", changed(extras=ObjectMasks("x")), "'x' of a detection is not an"),
    "prototypes that are boxes": ("yolox with masks", changed(extras=ObjectMasks("boxes0")), "name each output"),
    "background and objectness": ("yolox", changed(background=True), "objectness output beside a background class"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_detection_is_refused(fault: str) -> None:
    decoding, change, text = FAULTS[fault]
    model = detection_model(decoding)
    assert isinstance(model.task, Detection)
    with pytest.raises(ModelError, match=text):
        prove(replace(model, task=change(model.task)))


@pytest.mark.parametrize("scale", [1e-31, 1e31])
def test_a_step_that_makes_no_distinct_finite_numbers_is_refused(scale: float) -> None:
    with pytest.raises(ModelError, match="a step of output 'boxes0' is 1e"):
        detection_model("yolox", scale=scale)
    with pytest.raises(ModelError, match="a step of output 'vector' is 1e"):
        vector_model(Embedding(), 3, scale=scale)


def test_levels_are_told_apart() -> None:
    model: Model = detection_model("yolox")
    assert model.task.levels[0] == DetectionLevel("boxes0", "classes0", "objectness0")  # type: ignore[union-attr]
