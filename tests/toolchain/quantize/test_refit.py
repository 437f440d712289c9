"""The refit: a layer whose inputs are coarse is brought nearer to the float network, and nothing else is changed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage, Relu
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from edgemeta.toolchain.quantize.refit import images_for_refit


def lopsided() -> FloatModel:
    """Three convolutions with channels of unlike size, so that one scale rounds the small ones coarsely."""
    rng = np.random.default_rng(3)

    def conv(name: str, source: str, outputs: int, inputs: int, side: int) -> Conv[Any]:
        weight = rng.normal(0, 0.6 / side, (outputs, side, side, inputs)) * 3.0 ** -rng.integers(
            0, 4, (outputs, 1, 1, 1)
        )
        return Conv(name, source, weights=weight.astype(np.float32), padding=(side // 2,) * 4)

    layers = (
        conv("a", "input", 12, 3, 3),
        Relu("ra", "a", None),
        conv("b", "ra", 12, 12, 3),
        Relu("rb", "b", None),
        conv("c", "rb", 10, 12, 1),
        GlobalAverage("g", "c"),
    )
    return FloatModel("m", (32, 32, 3), layers, ("g",), Embedding(), mean=(128.0,) * 3, scale=(64.0,) * 3)


def test_fitted_weights_are_nearer_to_the_float_network(images: Any) -> None:
    model = lopsided()
    inputs = images(model)
    prepared, expected = Prepared(model, inputs, Events()), Expected(model, inputs)
    plain = Choice("minmax", "multiplier")
    before = expected.measure(prepared.builder(plain).build(), "plain").error
    (fitted,) = prepared.refit(plain)
    assert expected.measure(prepared.builder(fitted).build(), "fitted").error < 0.7 * before
    assert expected.measure(prepared.builder(plain).build(), "plain").error == before


def test_the_refit_is_the_same_each_time(images: Any) -> None:
    model, built = lopsided(), []
    for _ in range(2):
        prepared = Prepared(model, images(model), Events())
        built.append(prepared.builder(*prepared.refit(Choice("minmax", "multiplier"))).build())
    for one, other in zip(*(each.layers for each in built), strict=True):
        if isinstance(one, Conv):
            assert isinstance(other, Conv)
            assert (one.weights.values == other.weights.values).all()
            assert (one.bias == other.bias).all()


@pytest.mark.parametrize(("shape", "count"), [((32, 32, 16), 32), ((1024, 1024, 8), 8), ((4096, 4096, 64), 4)])
def test_large_networks_are_fitted_to_fewer_images(shape: tuple[int, int, int], count: int) -> None:
    assert images_for_refit([(1, 1, 10), shape]) == count


def test_weights_that_were_rounded_before_stay_and_the_bias_is_fitted(images: Any) -> None:
    model = lopsided()
    layers = tuple(
        replace(layer, weights=(np.round(layer.weights * 40) / 40).astype(np.float32)) if layer.name == "b" else layer
        for layer in model.layers
    )
    model = replace(model, layers=layers)
    prepared = Prepared(model, images(model), Events())
    plain = Choice("minmax", "multiplier")
    (fitted,) = prepared.refit(plain)
    before, after = (
        {layer.name: layer for layer in prepared.builder(each).build().layers}["b"] for each in (plain, fitted)
    )
    assert (before.weights.values == after.weights.values).all()
    assert (before.bias != after.bias).any()
