"""Distillation: the trained network is nearer to the float network on pictures that it was not trained on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import decode, encode
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Dense
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.auto import Prepared, quantize_auto
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from edgemeta.toolchain.quantize.weights import LayerWeights, best_scales
from tests.toolchain.quantize.test_auto import Recorder
from tests.toolchain.quantize.test_refit import lopsided

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

from edgemeta.toolchain.quantize import distill  # noqa: E402 (needs PyTorch)
from edgemeta.toolchain.quantize.rounding_network import RoundingNetwork  # noqa: E402


def pictures(model: FloatModel, count: int, seed: int) -> PreparedImages:
    """Random pictures, each brighter to one side."""
    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 1, 32)[:, None, None] * rng.integers(-120, 120, (count, 1, 1, 3))
    noise = rng.integers(0, 90, (count, 32, 32, 3)) + 80 + slope
    return PreparedImages(model, ArrayFrames(noise.clip(0, 255).astype(np.uint8)))


def classifier() -> FloatModel:
    """A network of logits, of which one scale rounds some channels coarsely."""
    model, rng = lopsided(), np.random.default_rng(4)
    dense = Dense("d", "g", weights=rng.normal(0, 1, (5, 10)).astype(np.float32))
    return replace(model, layers=(*model.layers, dense), outputs=("d",), task=Classification(tuple("abcde")))


@pytest.mark.parametrize("first", [0, 2])
def test_its_forward_pass_is_the_integer_networks(every_layer: FloatModel, images: Any, first: int) -> None:
    model = every_layer
    inputs = images(model)
    builder = Prepared(model, inputs, Events()).builder(Choice("mse", "multiplier"))
    network, integer = RoundingNetwork(builder, first), builder.build()
    tensors = reference.trace(integer, np.concatenate(list(inputs)))
    with torch.no_grad():
        found = network({name: tensors[name] for name in network.sources})
    for name, each in zip(network.outputs, found, strict=True):
        kind = integer.types[name]
        wanted = (tensors[name].astype(np.float64) - kind.zero_point) * integer.steps(name)
        off = np.abs(each.permute(0, 2, 3, 1).numpy() - wanted)
        assert off.mean() < 1e-2 * np.abs(wanted).std()


def test_training_repairs_damaged_weights_on_pictures_that_it_did_not_see() -> None:
    model, rng = classifier(), np.random.default_rng(7)
    prepared = Prepared(model, pictures(model, 24, 1), Events())
    choice = Choice("minmax", "multiplier")
    weights = prepared.builder(choice).policy.weights
    assert isinstance(weights, LayerWeights)
    weight, bias = weights.real("c")
    weights.train("c", weight * rng.normal(1, 0.1, weight.shape).astype(np.float32), bias, best_scales(weight, True))
    damaged = prepared.expected.measure(prepared.builder(choice).build(), "damaged").error
    trained = prepared.builder(prepared.distill(choice, pictures(model, 64, 2))).build()
    assert prepared.expected.measure(trained, "trained").error < 0.5 * damaged
    assert prepared.expected.measure(prepared.builder(choice).build(), "as before").error == damaged


def test_what_agrees_best_with_the_float_network_is_kept() -> None:
    model, recorder = classifier(), Recorder()
    result = quantize_auto(model, pictures(model, 24, 1), ("minmax",), recorder, pictures=pictures(model, 32, 2))
    assert result.tried[-1].choice.endswith(", distilled")
    assert result.agreement == min(result.tried, key=lambda each: each.distance)
    assert result.model.provenance["distill_pictures"] == 32
    assert recorder.ended["float network"] == (44, 44)
    assert recorder.ended["distilling"][0] == recorder.ended["distilling"][1]
    again = decode(encode(result.model))  # proved, stored, read
    batch = np.concatenate(list(pictures(model, 2, 3)))
    assert (reference.run(again, batch)[0] == reference.run(result.model, batch)[0]).all()


def test_pictures_that_judge_are_not_learned() -> None:
    model = classifier()
    judge, more = pictures(model, 6, 1), pictures(model, 9, 1)
    assert len(distill.without(more, judge)) == len(
        {image.tobytes() for image in more} - {each.tobytes() for each in judge}
    )
    assert len(distill.without(judge, judge)) == 0


def test_too_few_pictures() -> None:
    model = classifier()
    with pytest.raises(QuantizeError, match="has 3 pictures that do not judge it, expected at least 8"):
        quantize_auto(model, pictures(model, 8, 1), ("minmax",), pictures=pictures(model, 3, 2))
