"""Rescaling keeps the float network and fits it into the paper's formats."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.float_reference import logits
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import BatchNorm, Conv, Dense, GlobalAverage, Relu
from edgemeta.model.tasks import Classification
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.quantize.paper import quantize_paper
from edgemeta.toolchain.quantize.rescale import _excess, rescaled


def test_the_float_network_is_unchanged(every_layer: FloatModel, pixels: Any) -> None:
    changed = rescaled(every_layer, 5, 3)
    np.testing.assert_allclose(logits(changed, pixels), logits(every_layer, pixels), rtol=1e-4, atol=1e-4)
    before = {x.name: x for x in every_layer.layers}
    for layer in changed.layers:
        if isinstance(layer, Conv):
            assert layer.input == before[layer.name].input


def lopsided(rng: np.random.Generator, spread: float) -> FloatModel:
    """Conv, batch norm, ReLU, mean, dense; `spread` is the standard deviation of the convolution's weights."""
    weight = (rng.normal(0, spread, (8, 3, 3, 3))).astype(np.float32)
    conv = Conv("c", "input", weights=weight, padding=(1, 1, 1, 1))
    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    variance = np.full(8, 27 * spread**2 * 0.1, np.float32)
    dense = Dense("out", "g", weights=rng.normal(0, 1, (5, 8)).astype(np.float32))
    layers = (conv, BatchNorm("n", "c", ones, zeros, zeros, variance), Relu("r", "n"), GlobalAverage("g", "r"), dense)
    return FloatModel("m", (32, 32, 3), layers, ("out",), Classification(tuple("abcde")))


@pytest.mark.parametrize("spread", [0.01, 30.0])
def test_rescaling_saves_sums_beyond_the_formats(pixels: Any, spread: float) -> None:
    model = lopsided(np.random.default_rng(1), spread)
    wanted = logits(model, pixels)

    def error(rescale: bool) -> float:
        integer = quantize_paper(model, rescale)
        found = (
            logits_of(reference.run(integer, integer.preprocessing.table[0][pixels])) * integer.output_types[0].scale
        )
        return float(np.abs(found - wanted).mean())

    assert error(rescale=True) < error(rescale=False) / 2


def test_dead_channels_are_not_changed(every_layer: FloatModel) -> None:
    first = every_layer.layers[0]
    assert isinstance(first, Conv)
    dead = replace(first, weights=first.weights * np.array([0.0] + [1.0] * 7, np.float32).reshape(8, 1, 1, 1))
    changed = rescaled(replace(every_layer, layers=(dead, *every_layer.layers[1:])), 5, 3).layers[0]
    assert isinstance(changed, Conv)
    assert (changed.weights[0] == 0).all()


def test_excess_of_a_normal() -> None:
    x = np.linspace(-12, 12, 2_000_001)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    for z in (-1.5, 0.0, 0.7, 3.0):
        wanted = float((np.square(np.maximum(x - z, 0)) * density).sum() * (x[1] - x[0]))
        assert _excess(z) == pytest.approx(wanted, rel=1e-5)
