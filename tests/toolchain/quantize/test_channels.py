"""A scale for each channel: which tensors may have one, their ranges, and an integer network that has them."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import decode, encode
from edgemeta.model.float_reference import outputs
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    Concat,
    Conv,
    FloatLayer,
    Function,
    GlobalAverage,
    Lookup,
    Relu,
    TableRecipe,
    TensorType,
)
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Embedding, Raw
from edgemeta.toolchain.quantize.auto import Prepared, quantize_auto
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.channels import Grid, Separable, covering_steps, function_type
from edgemeta.toolchain.quantize.compare import real
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice

CHANNELS = 6
LOPSIDED = 4.0 ** -np.arange(CHANNELS)
"""What the channels of the networks below hold: the last one a thousandth of the first one."""


def network(function: str | None) -> FloatModel:
    """1x1 convolution, a function or a ReLU, 3x3 depthwise convolution, mean; channels of very different size."""
    rng = np.random.default_rng(5)
    ahead = rng.normal(0, 1.2, (CHANNELS, 1, 1, 3)) * LOPSIDED.reshape(-1, 1, 1, 1)
    apart = rng.normal(0, 1, (CHANNELS, 3, 3, 1)) / LOPSIDED.reshape(-1, 1, 1, 1)
    between: FloatLayer = Relu("r", "p", None) if function is None else Function("r", "p", function=function)  # type: ignore[arg-type]
    layers = (
        Conv("p", "input", weights=ahead.astype(np.float32), bias=(0.2 * LOPSIDED).astype(np.float32)),
        between,
        Conv("d", "r", weights=apart.astype(np.float32), groups=CHANNELS, padding=(1, 1, 1, 1)),
        GlobalAverage("g", "d"),
    )
    return FloatModel("m", (32, 32, 3), layers, ("g",), Embedding(), mean=(128.0,) * 3, scale=(50.0,) * 3)


@pytest.mark.parametrize("function", [None, "silu", "hard_swish"])
def test_small_channels_keep_their_precision(images: Any, function: str | None) -> None:
    """Of one scale for the tensor the smallest channel would have a quarter of a step."""
    model = network(function)
    inputs = images(model)
    result = quantize_auto(model, inputs, ("minmax",))
    model_again = decode(encode(result.model))
    batch = np.concatenate(list(inputs))
    found = real(model_again, "g", reference.run(model_again, batch)[0])
    wanted = np.concatenate([outputs(model, inputs.real(image))[0] for image in inputs])
    off = np.abs(found - wanted).mean((0, 1, 2)) / np.abs(wanted).mean((0, 1, 2))
    assert (off < 0.05).all()
    assert min(each.decibels for each in result.layers if each.layer != "p") > 25  # of which parts are flat


def test_the_tables_before_depthwise_convolutions_are_recipes(images: Any) -> None:
    model = network("silu")
    prepared = Prepared(model, images(model), Events())
    layers = {layer.name: layer for layer in prepared.builder(Choice("mse", "multiplier")).build().layers}
    assert isinstance(layers["r"], Lookup)
    assert isinstance(layers["r"].table, TableRecipe)
    assert layers["r"].entries.shape == (CHANNELS, 256)


def test_only_what_costs_nothing_has_a_scale_for_each_channel() -> None:
    one = np.ones((4, 1, 1, 4), np.float32)
    apart = np.ones((4, 3, 3, 1), np.float32)
    pads = {"groups": 4, "padding": (1, 1, 1, 1)}
    layers = (
        Conv("a", "input", weights=np.ones((4, 1, 1, 3), np.float32)),  # read by d and b, whose weights hold its scales
        Conv("d", "a", weights=apart, **pads),  # type: ignore[arg-type]
        Conv("b", "a", weights=one),
        Function("f", "b", function="silu"),  # read by a depthwise convolution and an addition
        Conv("e", "f", weights=apart, **pads),  # type: ignore[arg-type]
        Add("s", ("f", "e")),
        Conv("h", "d", weights=apart, **pads),  # type: ignore[arg-type]
        Function("x", "h", function="exp"),  # has no recipe
        Add("t", ("s", "x")),
    )
    model = FloatModel("m", (8, 8, 3), layers, ("t",), Raw(("t",)))
    found = Separable.of(blocks_of(model), prove_float(model, model.name), model.outputs)
    assert found.names - set(found.functions) == {"a", "d"}
    assert set(found.functions) == {"b"}


def joined(*, plain: bool) -> FloatModel:
    """Two convolutions with functions, joined, pooled apart, read by a depthwise convolution, and by a plain one."""
    rng = np.random.default_rng(7)
    weights = rng.normal(0, 1.2, (3, CHANNELS, 1, 1, 3)).astype(np.float32)
    apart = rng.normal(0, 1, (2 * CHANNELS, 3, 3, 1)) / np.tile(LOPSIDED, 2).reshape(-1, 1, 1, 1)
    across = rng.normal(0, 1, (CHANNELS, 1, 1, 2 * CHANNELS)) / np.tile(LOPSIDED, 2)
    layers: list[FloatLayer] = [
        Conv("p", "input", weights=weights[0] * LOPSIDED.astype(np.float32).reshape(-1, 1, 1, 1)),
        Function("r", "p", function="hard_swish"),
        Conv("q", "input", weights=weights[1] * LOPSIDED.astype(np.float32).reshape(-1, 1, 1, 1)),
        Function("s", "q", function="silu"),
        Concat("j", ("r", "s")),
        Conv("d", "j", weights=apart.astype(np.float32), groups=2 * CHANNELS, padding=(1, 1, 1, 1)),
        GlobalAverage("g", "d"),
    ]
    if plain:
        layers += [Conv("c", "j", weights=across.astype(np.float32)), GlobalAverage("h", "c")]
    outputs = ("g", "h") if plain else ("g",)
    return FloatModel("m", (32, 32, 3), tuple(layers), outputs, Raw(outputs), mean=(128.0,) * 3, scale=(50.0,) * 3)


@pytest.mark.parametrize("plain", [False, True])
def test_scales_pass_a_concatenation_and_a_plain_convolution_beside(images: Any, plain: bool) -> None:
    """Of one scale for the concatenation the smallest channel would have a quarter of a step."""
    model = joined(plain=plain)
    found = Separable.of(blocks_of(model), prove_float(model, model.name), model.outputs)
    assert found.names - set(found.functions) == {"r", "s", "j"}
    result = quantize_auto(model, images(model), ("minmax",))
    assert decode(encode(result.model)).types["r"].scale == result.model.types["j"].scale
    assert min(each.decibels for each in result.layers if each.layer in ("d", "c")) > 25


def test_steps_cover_each_channel_with_one_zero_point() -> None:
    low, high = np.array([-1.0, -0.01, 0.0]), np.array([3.0, 0.05, 7.0])
    zero, steps = covering_steps(low, high)
    assert (-zero * steps <= low + 1e-9).all()
    assert ((255 - zero) * steps >= high - 1e-9).all()


def test_a_channel_that_holds_nothing_has_a_step() -> None:
    for ends in ((np.zeros(2), np.array([0.0, 5.0])), (np.zeros(2), np.zeros(2))):
        assert (covering_steps(*ends)[1] > 0).all()
        samples = np.zeros((10, 2), np.float32)
        assert (function_type(samples, ends, (1, 1, 2), np.tanh).grid.step > 0).all()


def test_a_range_ends_where_the_function_is_flat() -> None:
    samples = np.random.default_rng(1).normal(0, 4, (2000, 1)).astype(np.float32)
    samples[:50] = np.linspace(-60, -20, 50)[:, np.newaxis]
    ends = samples.min(0).astype(np.float64), samples.max(0).astype(np.float64)
    found = function_type(samples, ends, (1, 1, 1), lambda x: np.clip(x / (1 + np.exp(-x)), -0.3, 6.0))
    assert -20 < found.grid.start[0] < -4
    assert 5.5 < found.grid.start[0] + 255 * found.grid.step[0] < 10


def test_the_reals_of_a_grid_are_those_of_a_type_with_one_scale() -> None:
    kind = TensorType((1, 1, 2), signed=True, zero_point=-3, scale=0.5)
    integers = np.array([[-128, -3], [0, 127]], np.int8)
    assert (Grid.of(kind).reals(integers, kind) == 0.5 * (integers.astype(np.float64) + 3)).all()
