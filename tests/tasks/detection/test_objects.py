"""The fast detector equals the plain one; both agree with an oracle of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import MAX_CANDIDATES
from edgemeta.tasks.detection.objects import Detector, Object
from tests.tasks.detection.models import DECODINGS, KINDS, Kind, constant_outputs, detection_model, random_outputs
from tests.tasks.detection.plain import plain_objects

Outputs = tuple[NDArray[Any], ...]


def both(model: Model, outputs: Outputs, thresholds: dict[str, float] | None = None) -> tuple[Object, ...]:
    """What both give: the same objects, in the same order, with the same floats."""
    fast = Detector(model, thresholds).objects(outputs)
    assert fast == plain_objects(model, outputs, thresholds)
    return fast


def upstream() -> Callable[..., Any]:
    """The oracle, which needs PyTorch."""
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    from tests.tasks.detection.upstream import upstream_objects

    return upstream_objects


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoding", DECODINGS)
def test_random_outputs_give_what_the_upstream_definition_gives(decoding: str, kind: Kind) -> None:
    model = detection_model(decoding, kind=kind, score_threshold=0.8)
    found = 0
    for seed in range(2):
        outputs = random_outputs(model, seed, spread=40)
        objects, expected = both(model, outputs), upstream()(model, outputs)
        assert [each.label for each in objects] == [label for label, _, _ in expected]
        np.testing.assert_allclose([each.score for each in objects], [score for _, score, _ in expected], rtol=1e-12)
        np.testing.assert_allclose([each.box for each in objects], [box for _, _, box in expected], atol=1e-9)
        found += len(objects)
    assert found > 10


@pytest.mark.parametrize("decoding", ["yolox", "yolov8", "ssd with background"])
def test_boxes_of_different_labels_are_one_object_unless_asked_by_label(decoding: str) -> None:
    plain = detection_model(decoding, score_threshold=0.5)
    exclusive = replace(plain, task=replace(plain.task, label_overlap=0.05))
    fewer = 0
    for seed in range(3):
        outputs = random_outputs(plain, seed, spread=40)
        every, once = both(plain, outputs), both(exclusive, outputs)
        assert Detector(exclusive, by_label=True).objects(outputs) == every
        assert set(once) <= set(every)
        fewer += len(every) - len(once)
    assert fewer > 0


def test_the_order_of_box_numbers() -> None:
    model = detection_model("ssd", box_order="yxhw")
    outputs = random_outputs(model, 3)
    objects, expected = both(model, outputs), upstream()(model, outputs)
    assert len(objects) > 5
    np.testing.assert_allclose([each.box for each in objects], [box for _, _, box in expected], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("spread", [3.0, 300.0], ids=["ties", "extremes"])
def test_ties_and_extremes(decoding: str, kind: Kind, spread: float) -> None:
    model = detection_model(decoding, kind=kind)
    for seed in range(3):
        both(model, random_outputs(model, seed, spread))
        both(model, random_outputs(model, seed, spread, shift=60))


@pytest.mark.parametrize("value", ["lo", "hi", "zero"])
@pytest.mark.parametrize("scale", [1e-25, 0.05, 3.0, 1e25])
@pytest.mark.parametrize("decoding", DECODINGS)
def test_constant_outputs_and_exponents_that_overflow(decoding: str, scale: float, value: Any) -> None:
    for kind in KINDS:
        model = detection_model(decoding, kind=kind, scale=scale, score_threshold=0.2)
        objects = both(model, constant_outputs(model, value))
        assert all(np.isfinite([*each.box, each.score]).all() for each in objects)


@pytest.mark.gate("4 s: the plain form of thousands of candidates")
@pytest.mark.parametrize("decoding", DECODINGS)
def test_every_cell_above_the_threshold_is_cut_to_the_best_candidates(decoding: str) -> None:
    model = detection_model(decoding, labels=3, image=(256, 256), strides=(8, 16), score_threshold=0.001)
    outputs = random_outputs(model, 1, spread=20, shift=20)
    cells = sum(
        out.shape[0] * out.shape[1] for name, out in zip(model.outputs, outputs, strict=True) if "classes" in name
    )
    assert cells > MAX_CANDIDATES
    assert len(both(model, outputs)) == 100


def test_no_object_where_every_score_is_too_low() -> None:
    for decoding in DECODINGS:
        model = detection_model(decoding, score_threshold=0.999)
        assert both(model, constant_outputs(model, "zero")) == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoding", DECODINGS)
def test_thresholds_of_labels(decoding: str, kind: Kind) -> None:
    model = detection_model(decoding, kind=kind, max_objects=1000, strides=(4, 8))
    outputs = random_outputs(model, 5)
    objects = both(model, outputs)
    stricter = both(model, outputs, {"label 1": 0.999, "label 3": 0.9})
    expected = [each for each in objects if each.score >= {"label 1": 0.999, "label 3": 0.9}.get(each.label, 0.4)]
    assert list(stricter) == expected  # suppression is within a label, from the best on
    assert len(expected) < len(objects)
    lower = both(model, outputs, {"label 2": 0.001})
    assert [each for each in lower if each.label != "label 2"] == [each for each in objects if each.label != "label 2"]


def test_boxes_are_clipped_to_the_input() -> None:
    model = detection_model("yolox", scale=0.1)
    for each in both(model, random_outputs(model, 2, 90)):
        x0, y0, x1, y1 = each.box
        assert 0 <= x0 < x1 <= 48
        assert 0 <= y0 < y1 <= 64


def test_a_stride_that_is_not_the_inputs_size_divided_by_the_grids() -> None:
    """As in SSD300, whose map of 38 x 38 has a step of 8 pixels."""
    model = detection_model("ssd", strides=(16,))
    level = replace(model.task.levels[0], stride=(10.0, 20.0))  # type: ignore[union-attr]
    moved = replace(model, task=replace(model.task, levels=(level,)))
    outputs = list(constant_outputs(model, "lo"))
    outputs[0][:] = -7  # boxes are the anchors
    outputs[1][2, 1, 2] = 100  # row 2, column 1: label 2 of the first anchor
    (found,) = both(moved, tuple(outputs))
    assert found.box == (1.5 * 10 - 5, 2.5 * 20 - 7, 1.5 * 10 + 5, 2.5 * 20 + 7)


@pytest.mark.parametrize("above", range(1, 100, 7))
def test_a_softmax_score_exactly_at_the_threshold_is_an_object(above: int) -> None:
    """One label beside the background: its score is the softmax of two logits."""
    model = detection_model("ssd with background", labels=1, strides=(16,))
    outputs = list(constant_outputs(model, "lo"))
    outputs[0][:], outputs[1][0, 0, :2] = -7, (-7, -7 + above)
    logits = np.array([0.0, 0.05 * above])
    score = float((np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())[1])
    exact = replace(model, task=replace(model.task, score_threshold=score))  # type: ignore[arg-type]
    (found,) = both(exact, tuple(outputs))
    assert found.score == score


def test_outlines_can_be_left_out() -> None:
    model = detection_model("yolox with masks")
    outputs = random_outputs(model, 4)
    objects = Detector(model).objects(outputs)
    assert any(each.outline for each in objects)
    assert Detector(model, outlines=False).objects(outputs) == tuple(each._replace(outline=()) for each in objects)


def test_an_unknown_label_and_a_wrong_threshold_are_refused() -> None:
    model = detection_model("yolox")
    with pytest.raises(ValueError, match="no label 'cat', expected one of label 0"):
        Detector(model, {"cat": 0.5})
    with pytest.raises(ValueError, match=r"threshold of 'label 1' is 1.5, expected 0\.001 \.\. 0\.999"):
        Detector(model, {"label 1": 1.5})
