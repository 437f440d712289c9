from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import decode, encode
from edgemeta.model.float_reference import logits
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage
from edgemeta.model.tasks import Classification, Detection, DetectionLevel
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.quantize.auto import Prepared, parted, quantize_auto, stages_of_auto
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.compare import Expected, real
from edgemeta.toolchain.quantize.events import Agreement, Events, StageName
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, RangeRule


class Recorder(Events):
    """Keeps its events."""

    def __init__(self) -> None:
        self.choices: list[Agreement] = []
        self.begun: list[StageName] = []
        self.ended: dict[StageName, tuple[int, int]] = {}

    def begin(self, stage: StageName, detail: str = "") -> None:
        self.begun.append(stage)

    def progress(self, done: int, total: int) -> None:
        self.ended[self.begun[-1]] = (done, total)

    def tried(self, agreement: Agreement) -> None:
        self.choices.append(agreement)


def test_every_layer_is_covered(every_layer: FloatModel, images: Any) -> None:
    recorder, inputs = Recorder(), images(every_layer)
    result = quantize_auto(every_layer, inputs, events=recorder)
    integer = result.model
    assert len(recorder.choices) == len(result.tried) == 5
    best = min(recorder.choices, key=lambda a: a.error)
    assert integer.provenance["choice"] == best.choice
    assert best == result.agreement
    assert best.error < 2e-3
    assert set(recorder.ended) == {"ranges", "trying", "refit", "layers"}
    assert all(done == total for done, total in recorder.ended.values())
    again = decode(encode(integer))  # proved, stored, read
    batch = np.concatenate(list(inputs))
    assert (reference.run(again, batch)[0] == reference.run(integer, batch)[0]).all()
    _, judge = parted(inputs, 0, 32)
    assert Expected(every_layer, judge).measure(again, "x").error == best.error


@pytest.mark.parametrize("rules", [RANGE_RULES, ("minmax",)])
def test_the_planned_stages_are_those_that_begin(
    every_layer: FloatModel, images: Any, rules: tuple[RangeRule, ...]
) -> None:
    recorder, inputs = Recorder(), images(every_layer)
    result = quantize_auto(every_layer, inputs, rules, recorder)
    planned = [stage.name for stage in stages_of_auto(len(inputs), len(rules))]
    assert ["images", *recorder.begun] == planned
    assert len(result.tried) == planned.count("trying") == len(rules) + 2


@pytest.mark.parametrize(
    ("own", "drawn", "most", "fit"),
    [
        (100, 16, 32, [*(i * 100 // 24 for i in range(24)), *range(100, 116, 2)]),
        (3, 16, 32, [0, 1, *range(3, 19, 2)]),
        (20, 0, 4, [0, 5, 10, 15]),
        (20, 16, 4, [0, 6, 13, 20]),
    ],
)
def test_weights_are_fitted_to_some_images_and_judged_by_the_others(
    every_layer: FloatModel, images: Any, own: int, drawn: int, most: int, fit: list[int]
) -> None:
    inputs = images(every_layer)
    every = inputs.take([number % len(inputs) for number in range(own + drawn)])
    fitted, judge = parted(every, drawn, most)
    wanted = [every.take([number])[0] for number in fit]
    assert [each.tobytes() for each in fitted] == [each.tobytes() for each in wanted]
    assert len(judge) == own + drawn - len(fit)


@pytest.mark.parametrize("find_objects", [False, True])
def test_drawn_scenes_beside_unlike_images_are_for_detections(every_layer: FloatModel, find_objects: bool) -> None:
    model = every_layer
    if find_objects:
        numbers = {"boxes": 4, "objectness": 1, "classes": 2}
        layers = tuple(Conv(name, "input", weights=np.ones((n, 1, 1, 3), np.float32)) for name, n in numbers.items())
        task = Detection(("cat", "dog"), "yolox", (DetectionLevel("boxes", "classes", "objectness"),))
        model = FloatModel("m", (4, 4, 3), layers, tuple(numbers), task)
    unlike = np.random.default_rng(7).integers(0, 256, (12, *model.input_shape), dtype=np.uint8)
    scenes, camera = unlike[8:], np.concatenate([unlike[:1]] * 8)

    def judging(images: NDArray[np.uint8]) -> list[int]:
        prepared = PreparedImages(model, ArrayFrames(np.concatenate([images, scenes]), "x"))
        return list(Prepared(model, prepared, Events(), len(scenes)).judge.numbers)

    assert judging(unlike[:8]) == ([1, 3, 5, 7, 9, 11] if find_objects else [1, 3, 5, 7])
    assert judging(camera) == [1, 3, 5, 7, 9, 11]
    assert judging(unlike[:3]) == [2, 4, 6]  # too few


def test_one_image_is_fitted_to_and_judges(every_layer: FloatModel, images: Any) -> None:
    fit, judge = parted(images(every_layer).take([3]), 0, 32)
    assert (len(fit), len(judge)) == (1, 1)


def test_the_error_of_every_layer_is_stated_worst_first(every_layer: FloatModel, images: Any) -> None:
    result = quantize_auto(every_layer, images(every_layer), ("minmax",))
    assert {each.layer for each in result.layers} == {layer.name for layer in result.model.layers} - {"j3.input0"}
    found = [each.decibels for each in result.layers]
    assert found == sorted(found)
    assert found[0] > 20  # a tenth of the signal
    assert {each.kind for each in result.layers} >= {"Conv", "Concat", "MaxPool", "Dense"}


def test_one_rule_for_ranges(every_layer: FloatModel, images: Any) -> None:
    result = quantize_auto(every_layer, images(every_layer), ("percentile",))
    assert all("percentile" in each.choice for each in result.tried)


def test_imported_layers_are_covered(imported_layers: FloatModel, images: Any) -> None:
    inputs = images(imported_layers)
    result = quantize_auto(imported_layers, inputs)
    integer = result.model
    assert result.agreement.error < 5e-3
    assert integer.preprocessing.colour == "bgr"
    again = decode(encode(integer))
    batch = np.concatenate(list(inputs))
    expected = reference.run(integer, batch)[0]
    assert (reference.run(again, batch)[0] == expected).all()
    with closing(choose("cpu").compile(again, {})) as session:
        assert (session.run(batch)[0] == expected).all()


def test_dead_and_lopsided_channels(images: Any, pixels: Any) -> None:
    weight = np.zeros((4, 1, 1, 3), np.float32)
    weight[1], weight[2], weight[3] = 1e-6, 1.0, 1e-3
    bias = np.array([5.0, 3.0, 0.0, 1.0], np.float32)
    layers = (Conv("c", "input", weights=weight, bias=bias), GlobalAverage("g", "c"))
    model = FloatModel("m", (32, 32, 3), layers, ("g",), Classification(tuple("abcd")))
    inputs = images(model)
    integer = quantize_auto(model, inputs).model
    encode(integer)
    found = real(integer, "g", reference.run(integer, np.concatenate(list(inputs)))[0]).reshape(20, 4)
    np.testing.assert_allclose(found, logits(model, pixels), atol=0.06)


def test_types(every_layer: FloatModel, images: Any) -> None:
    integer = quantize_auto(every_layer, images(every_layer)).model
    kinds = {x.name: x.output for x in integer.layers}
    assert not kinds["c0"].signed
    assert not kinds["a1"].signed
    assert kinds["out"].bits == 32
    six = next(x for x in integer.layers if x.name == "c0")
    assert isinstance(six, q.Conv)
    assert isinstance(six.requantize, q.Multiplier)
    assert six.requantize.lo == 0
    assert six.requantize.hi <= 255


@pytest.mark.parametrize("count", [1, 3])
def test_few_images(every_layer: FloatModel, images: Any, count: int) -> None:
    result = quantize_auto(every_layer, images(every_layer).chosen(count))
    assert result.model.provenance["calibration_images"] == count
