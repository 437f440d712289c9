"""Scheme auto: near the float network for any graph, and its provenance lists all choices tried."""

from contextlib import closing
from typing import Any

import numpy as np

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import decode, encode
from edgemeta.model.tasks import Classification
from edgemeta.plugins.registry import choose
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.float_model.forward import logits
from edgemeta.toolchain.float_model.graph import Conv, FloatModel, GlobalAverage
from edgemeta.toolchain.quantize.auto import Agreement, measure, quantize_auto


def test_every_layer_is_covered(every_layer: FloatModel, pixels: Any) -> None:
    tried: list[Agreement] = []
    integer = quantize_auto(every_layer, pixels, tried.append)
    assert len(tried) == 10
    best = min(tried, key=lambda a: a.error)
    assert integer.provenance["choice"] == best.choice
    assert best.error < 2e-3
    again = decode(encode(integer))  # proved, stored, read
    images = integer.preprocessing.table[0][pixels]
    assert (reference.run(again, images)[0] == reference.run(integer, images)[0]).all()
    assert measure(again, images, logits(every_layer, pixels), "x").error == best.error


def test_imported_layers_are_covered(imported_layers: FloatModel, pixels: Any) -> None:
    integer = quantize_auto(imported_layers, pixels)
    error = min(each["logit_error"] for each in integer.provenance["tried"])  # type: ignore[attr-defined]
    assert error < 5e-3
    assert integer.preprocessing.colour == "bgr"
    again = decode(encode(integer))
    images = integer.preprocessing.table[0][pixels[..., ::-1]]
    expected = reference.run(integer, images)[0]
    assert (reference.run(again, images)[0] == expected).all()
    with closing(choose("cpu").compile(again, {})) as session:
        assert (session.run(np.ascontiguousarray(images))[0] == expected).all()


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


def test_dead_and_lopsided_channels(pixels: Any) -> None:
    weight = np.zeros((4, 1, 1, 3), np.float32)
    weight[1], weight[2], weight[3] = 1e-6, 1.0, 1e-3
    bias = np.array([5.0, 3.0, 0.0, 1.0], np.float32)
    layers = (Conv("c", "input", weight, bias), GlobalAverage("g", "c"))
    model = FloatModel("m", (32, 32, 3), layers, ("g",), Classification(tuple("abcd")))
    integer = quantize_auto(model, pixels)
    encode(integer)
    found = logits_of(reference.run(integer, integer.preprocessing.table[0][pixels])) * integer.output_types[0].scale
    np.testing.assert_allclose(found, logits(model, pixels), atol=0.06)
