"""Scheme auto: near the float network on any graph, and honest about what it tried."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import decode, encode
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_forward import logits
from edgemeta.toolchain.float_graph import Conv, FloatModel, GlobalAverage
from edgemeta.toolchain.quantize.auto import Agreement, measure, quantize_auto
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.choices import Choice, quantize_weights, tensor_types
from edgemeta.toolchain.quantize.integer_layers import build


def test_every_layer_is_covered(every_layer: FloatModel, pixels: Any) -> None:
    tried: list[Agreement] = []
    integer = quantize_auto(every_layer, pixels, tried.append)
    assert len(tried) == 7
    best = min(tried, key=lambda a: a.error)
    assert integer.provenance["choice"] == best.choice
    assert best.error < 2e-3
    again = decode(encode(integer))  # proved, stored, read
    images = integer.preprocessing.table[0][pixels]
    assert (reference.run(again, images) == reference.run(integer, images)).all()
    assert measure(again, images, logits(every_layer, pixels), "x").error == best.error


def test_types(every_layer: FloatModel, pixels: Any) -> None:
    integer = quantize_auto(every_layer, pixels)
    kinds = {x.name: x.output for x in integer.layers}
    assert not kinds["c0"].signed
    assert not kinds["a1"].signed
    assert kinds["c1"].signed
    assert kinds["u2"].signed
    assert kinds["j3"].signed  # one of its inputs is
    assert kinds["out"].bits == 32
    assert any(isinstance(x, q.Rescale) for x in integer.layers)
    six = next(x for x in integer.layers if x.name == "c0")
    assert isinstance(six, q.Conv)
    assert isinstance(six.requantize, q.Multiplier)
    assert six.requantize.lo == 0
    assert six.requantize.hi <= 255


@pytest.mark.parametrize("form", ["multiplier", "table"])
@pytest.mark.parametrize("clip", ["minmax", "percentile", "mse"])
def test_every_choice_is_near_the_float_network(every_layer: FloatModel, pixels: Any, form: Any, clip: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    from edgemeta.toolchain.float_graph import check

    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, clip)
    integer = build(every_layer, blocks, types, Choice(clip, form))
    encode(integer)
    assert measure(integer, integer.preprocessing.table[0][pixels], logits(every_layer, pixels), "x").error < 0.01


def test_other_means_become_zero_points(every_layer: FloatModel, pixels: Any) -> None:
    model = replace(every_layer, mean=0.0, scale=255.0)
    integer = quantize_auto(model, pixels)
    assert (integer.input.signed, integer.input.zero_point) == (False, 0)
    encode(integer)
    with pytest.raises(QuantizeError, match="expected a whole number"):
        quantize_auto(replace(every_layer, mean=127.5), pixels)


def test_dead_and_lopsided_channels(pixels: Any) -> None:
    weight = np.zeros((4, 1, 1, 3), np.float32)
    weight[1], weight[2], weight[3] = 1e-6, 1.0, 1e-3
    bias = np.array([5.0, 3.0, 0.0, 1.0], np.float32)
    layers = (Conv("c", "input", weight, bias), GlobalAverage("g", "c"))
    model = FloatModel("m", (32, 32, 3), layers, "g", tuple("abcd"))
    integer = quantize_auto(model, pixels)
    encode(integer)
    found = reference.run(integer, integer.preprocessing.table[0][pixels]) * integer.logits.scale
    np.testing.assert_allclose(found, logits(model, pixels), atol=0.06)


def test_weights_per_channel_are_finer() -> None:
    rng = np.random.default_rng(3)
    weight = (rng.normal(0, 1, (6, 3, 3, 4)) * np.logspace(-2, 0, 6).reshape(6, 1, 1, 1)).astype(np.float32)

    def off(per_channel: bool) -> float:
        found = quantize_weights(weight, per_channel, np.zeros(6))
        assert np.abs(found.values).max() <= 127
        back = found.values * found.scale.reshape(-1, 1, 1, 1)
        return float(np.abs(back / weight - 1).mean())

    assert off(per_channel=True) < off(per_channel=False) / 2
