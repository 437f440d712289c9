"""Scores of a detection that say how often its objects are right; a threshold that foreign pictures do not reach."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.file import encode, load, parse
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection
from edgemeta.model.zoo import find
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.numbers import sigmoid
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import WATCHED_SCORE, JudgedObjects
from edgemeta.toolchain.evaluate.detection import finder, objects_in
from edgemeta.toolchain.quantize.run import integer_session, require_self_test
from edgemeta.toolchain.reject.detection_scores import calibrate, fit_scores, logit
from rig.square_detector import COLOURS, COLUMNS, ROWS, SIDE, square_detector

LABELS = tuple(COLOURS)


def pictures(count: int, seed: int) -> BoxedImages:
    """Cells of more or less red, green or blue; the paler one is, the more seldom it has a box, reds very seldom."""
    rng = np.random.default_rng(seed)
    x = np.full((count, ROWS * SIDE, COLUMNS * SIDE, 3), 20, np.uint8)
    boxes, classes, images = [], [], []
    for number in range(count):
        for place in rng.permutation(ROWS * COLUMNS)[:4].tolist():
            (row, column), label = divmod(place, COLUMNS), int(rng.integers(3))
            strength = int(rng.integers(120, 256))
            top, left = SIDE * row, SIDE * column
            x[number, top : top + SIDE, left : left + SIDE] = 0
            x[number, top : top + SIDE, left : left + SIDE, label] = strength
            if rng.random() < (strength - 100) / 160 * (0.3 if label == 0 else 1.0):
                boxes.append((left, top, left + SIDE, top + SIDE))
                classes.append(label)
                images.append(number)
    return BoxedImages(x, np.array(boxes, np.float32), np.array(classes), np.array(images), LABELS)


def found_by(model: Model, images: BoxedImages) -> list[tuple[Object, ...]]:
    with closing(integer_session(model)) as session:
        return objects_in(images, model, finder(model, session, WATCHED_SCORE), lambda *_: None)


def test_the_map_that_made_the_objects_is_found() -> None:
    rng = np.random.default_rng(1)
    count, slope, offsets = 40_000, 0.6, np.array([0.4, -0.5])
    scores, classes = rng.uniform(0.05, 0.99, count), rng.integers(0, 2, count)
    right = rng.random(count) < sigmoid(slope * logit(scores) + offsets[classes])
    fitted = fit_scores(JudgedObjects(np.arange(count), classes, scores, right), 2)
    assert fitted.slope == pytest.approx(slope, abs=0.03)
    np.testing.assert_allclose(fitted.offsets, offsets, atol=0.06)


def test_scores_become_shares_of_right_objects_and_nothing_else_changes() -> None:
    model, images, others = square_detector(), pictures(300, 1), pictures(300, 2)
    made, done = calibrate(model, images)
    assert done.error < 0.06 < 0.2 < done.plain_error
    stated = made.provenance["scores"]
    assert isinstance(stated, dict)
    offsets = dict(zip(LABELS, stated["offsets"], strict=True))
    for before, after in zip(found_by(model, others), found_by(made, others), strict=True):
        logits = {each.box: (each.label, done.slope * logit(np.array(each.score))) for each in before}
        for each in after:
            label, number = logits[each.box]
            assert each.label == label
            assert each.score == pytest.approx(float(sigmoid(number + offsets[label])), abs=0.003)
    assert [layer.name for layer in made.layers if layer is not model.by_name[layer.name]] == ["classes"]
    require_self_test(made)
    assert encode(parse(encode(made), "made")) == encode(made)


def test_the_threshold_rises_until_foreign_pictures_have_no_object() -> None:
    walls = np.full((50, 60, 80, 3), 30, np.uint8)
    walls[:25, ..., 1] = np.linspace(160, 250, 25, dtype=np.uint8)[:, np.newaxis, np.newaxis]
    walls[:25, ..., ::2] = 0
    images = pictures(300, 1)
    plain, of_plain = calibrate(square_detector(), images)
    made, done = calibrate(square_detector(), images, [ArrayFrames(walls, "walls")], most=0.1)
    assert isinstance(plain.task, Detection)
    assert isinstance(made.task, Detection)
    assert of_plain.score_threshold == plain.task.score_threshold == 0.4
    assert made.task.score_threshold == done.score_threshold
    assert done.foreign["walls"] <= 0.1
    least = calibrate(square_detector(), images, [ArrayFrames(walls, "walls")], most=1.0)[1]
    assert least.score_threshold == 0.4 <= done.score_threshold
    assert least.foreign["walls"] > 0.1


def test_models_without_such_scores_and_pictures_that_say_nothing_are_refused() -> None:
    model, images = square_detector(), pictures(10, 1)
    with pytest.raises(QuantizeError, match="expected a detection"):
        calibrate(load(find("resnet8-cifar10")), images)
    assert isinstance(model.task, Detection)
    with pytest.raises(QuantizeError, match="expected the sigmoid of a number for each label"):
        calibrate(replace(model, task=replace(model.task, softmax=True)), images)
    grey: NDArray[np.uint8] = np.full_like(images.x, 90)
    with pytest.raises(QuantizeError, match=r"of 0 objects that score 0\.05 or more 0 are right"):
        calibrate(model, replace(images, x=grey))
