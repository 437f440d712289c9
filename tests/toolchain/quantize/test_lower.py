"""The layers of every combination of choices agree with the float network."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import layers as q
from edgemeta.model.file import encode
from edgemeta.model.float_reference import all_tensors, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage, Relu
from edgemeta.model.tasks import Detection, DetectionLevel, Embedding
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.compare import Expected, real
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from tests.toolchain.conftest import trace


@pytest.mark.parametrize("form", ["multiplier", "table"])
@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
def test_every_choice_is_near_the_float_network(every_layer: FloatModel, images: Any, form: Any, ranges: Any) -> None:
    inputs = images(every_layer)
    integer = Prepared(every_layer, inputs, Events()).builder(Choice(ranges, form)).build()
    encode(integer)
    assert Expected(every_layer, inputs).measure(integer, "x").error < 0.01


def test_every_tensor_is_near_its_float_tensor(every_layer: FloatModel, images: Any, pixels: Any) -> None:
    inputs = images(every_layer)
    builder = Prepared(every_layer, inputs, Events()).builder(Choice("minmax", "multiplier"))
    integer = builder.build()
    found = trace(integer, inputs)
    wanted = all_tensors(every_layer, network_input(every_layer, pixels))
    for block in builder.blocks[:-1]:
        grid, kind = builder.grids.get(block.name) or Grid.of(builder.types[block.name]), builder.types[block.name]
        off = np.abs(grid.reals(found[block.name], kind) - wanted[block.after])
        assert off.mean() < 3 * builder.types[block.name].scale, block.name


def test_clamps_from_above_and_below(images: Any) -> None:
    layers = (
        Conv("c", "input", weights=np.ones((2, 1, 1, 3), np.float32)),
        Relu("r", "c", 6.0),
        GlobalAverage("g", "r"),
    )
    model = FloatModel("m", (8, 8, 3), layers, ("g",), Embedding())
    prepared = Prepared(model, images(model), Events())
    prepared.statistics.histograms["r"].greatest = 12.0
    for form in ("multiplier", "table"):
        first = prepared.builder(Choice("minmax", form)).build().layers[0]  # type: ignore[arg-type]
        assert isinstance(first, q.Conv)
        if isinstance(first.requantize, q.ShiftTable):
            assert (first.requantize.table.min(), first.requantize.table.max()) == (0, 128)
        else:
            assert isinstance(first.requantize, q.Multiplier)
            assert (first.requantize.lo, first.requantize.hi) == (0, 128)


def detection(*, objectness: str | None = None) -> Detection:
    return Detection(tuple("abcdef"), "yolox", (DetectionLevel("boxes", "classes", objectness),))


def test_outputs_of_a_head_are_accumulators_with_a_step_for_each_channel(images: Any, pixels: Any) -> None:
    rng = np.random.default_rng(4)
    weight = (rng.normal(0, 0.3, (6, 1, 1, 3)) * np.logspace(0, 3, 6).reshape(6, 1, 1, 1)).astype(np.float32)
    layers = (
        Conv("classes", "input", weights=weight, bias=rng.normal(0, 1, 6).astype(np.float32)),
        Conv("objectness", "input", weights=weight[:1]),
        Conv("boxes", "input", weights=weight[2:]),
    )
    model = FloatModel("m", (32, 32, 3), layers, ("boxes", "objectness", "classes"), detection(objectness="objectness"))
    inputs = images(model)
    builder = Prepared(model, inputs, Events()).builder(Choice("minmax", "multiplier"))
    (layer,) = builder.layers(builder.blocks[0], is_raw=True)
    assert isinstance(layer, q.Conv)
    assert (layer.requantize, layer.output.bits, layer.output.scale) == (None, 32, builder.types["input"].scale)
    wanted = all_tensors(model, network_input(model, pixels))
    integer = builder.build()
    encode(integer)
    assert integer.outputs == model.outputs
    found = trace(integer, inputs)
    for name in integer.outputs:
        off = np.abs(real(integer, name, found[name]) - wanted[name]).max((0, 1, 2))
        assert (off < 0.02 * np.abs(wanted[name]).max((0, 1, 2))).all(), name


def test_an_output_that_is_read_again_has_eight_bits(images: Any) -> None:
    weight = np.full((4, 1, 1, 3), 0.2, np.float32)
    layers = (
        Conv("boxes", "input", weights=weight),
        Conv("classes", "boxes", weights=np.ones((6, 1, 1, 4), np.float32)),
    )
    model = FloatModel("m", (32, 32, 3), layers, ("boxes", "classes"), detection())
    integer = Prepared(model, images(model), Events()).builder(Choice("minmax", "multiplier")).build()
    assert [layer.output.bits for layer in integer.layers] == [8, 32]
