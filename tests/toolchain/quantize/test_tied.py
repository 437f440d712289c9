"""Tensors with a scale for each channel, whose steps are in proportion: which they are, and what they keep."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    Function,
    GlobalAverage,
    MaxPool,
    Pad,
    Product,
    Rearrange,
    Relu,
    Softmax,
)
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Raw
from edgemeta.toolchain.quantize.auto import Prepared, has_ranges_by_rule, quantize_auto
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from edgemeta.toolchain.quantize.tied import tied_tensors
from tests.toolchain.quantize.test_channels import CHANNELS, LOPSIDED


def conv(name: str, source: str, inputs: int = CHANNELS, outputs: int = CHANNELS) -> Conv[Any]:
    """A 1x1 convolution; it reads and gives channels of very different size."""
    rng = np.random.default_rng(len(name) + ord(name[0]))
    weights = rng.normal(0, 0.5, (outputs, 1, 1, inputs))
    weights *= np.resize(LOPSIDED, outputs).reshape(-1, 1, 1, 1)
    weights /= np.resize(LOPSIDED, inputs) if source != "input" else 1.0
    bias = 0.2 * np.resize(LOPSIDED, outputs)
    return Conv(name, source, weights=weights.astype(np.float32), bias=bias.astype(np.float32))


def network(*layers: FloatLayer) -> FloatModel:
    """With the last layer's output, of pixels -128 .. 127 through 50."""
    outputs = (layers[-1].name,)
    return FloatModel("m", (8, 8, 3), layers, outputs, Raw(outputs), mean=(128.0,) * 3, scale=(50.0,) * 3)


def names(model: FloatModel) -> list[list[set[str]]]:
    """The tied tensors, those of one quantization together."""
    functions = {layer.name for layer in model.layers if isinstance(layer, Function)}
    found = tied_tensors(blocks_of(model), prove_float(model, model.name), model.outputs, functions)
    return [[set(kind) for kind in each.kinds] for each in found]


START = conv("a", "input", 3)


@pytest.mark.parametrize(
    ("between", "last", "expected"),
    [
        ((), "a", [[{"a"}]]),
        ((conv("b", "a"), Add("s", ("a", "b"))), "s", [[{"a"}, {"b"}, {"s"}]]),
        ((MaxPool("p", "a", kernel=(2, 2), stride=(2, 2)), Relu("r", "p", None)), "r", [[{"a", "p", "r"}]]),
        ((Pad("p", "a", padding=(1, 1, 1, 1)), ChannelShuffle("c", "p", groups=2)), "c", [[{"a", "p", "c"}]]),
        ((GlobalAverage("g", "a"), conv("b", "g"), Product("s", ("a", "b"))), "s", [[{"a"}, {"g"}, {"s"}]]),
        # softmax reads all channels of a position, a rearrangement mixes them, a square takes a factor twice
        ((conv("b", "a"), Softmax("s", "b")), "s", [[{"a"}]]),
        ((Rearrange("t", "a", sides=(8, 8, 3, 2), order=(0, 2, 1, 3), rows=2, columns=1),), "t", []),
        ((Product("s", ("a", "a")),), "s", []),
        # the image has one scale
        ((Concat("j", ("a", "input")),), "j", []),
    ],
)
def test_layers_that_pass_channels_tie_their_tensors(
    between: tuple[FloatLayer, ...], last: str, expected: list[list[set[str]]]
) -> None:
    model = network(START, *between)
    channels = prove_float(model, "m")[last][2]
    assert names(network(START, *between, conv("z", last, channels))) == expected


def test_an_activation_with_a_ceiling_has_a_scale_of_its_own() -> None:
    """In a concatenation with greater numbers its ceiling would not be one integer for all channels."""
    layers = (START, Relu("r", "a", 6.0), conv("b", "input", 3))
    assert names(network(*layers, Concat("j", ("r", "b")), conv("z", "j", 2 * CHANNELS))) == []
    assert names(network(*layers[:2], conv("z", "r"))) == [[{"a"}]]


def test_weights_that_were_rounded_before_hold_no_shares() -> None:
    rounded = Conv("z", "a", weights=np.arange(-18, 18, dtype=np.float32).reshape(CHANNELS, 1, 1, CHANNELS) / 16)
    assert names(network(START, rounded)) == []


def test_dense_layers_read_all_positions() -> None:
    weights = np.random.default_rng(3).normal(0, 1, (4, 8 * 8 * CHANNELS)) / np.tile(LOPSIDED, 64)
    model = network(START, Dense("z", "a", weights=weights.astype(np.float32)))
    assert names(model) == [[{"a"}]]
    assert not has_ranges_by_rule(model)


def test_small_channels_keep_their_precision_through_sums_and_means(images: Any) -> None:
    """Of one scale for each tensor the smallest channel would have a quarter of a step."""
    model = network(
        START,
        conv("b", "a"),
        Add("s", ("a", "b")),
        MaxPool("p", "s", kernel=(2, 2), stride=(2, 2)),
        conv("c", "p"),
        Add("t", ("p", "c")),
        GlobalAverage("g", "t"),
        conv("z", "g"),
    )
    prepared = Prepared(model, images(model), Events())
    grids = prepared.builder(Choice("minmax", "multiplier")).grids
    shares = [grids[name].shares for name in "abspctg"]
    assert all(np.array_equal(each, shares[0]) for each in shares)
    result = quantize_auto(model, images(model), ("minmax",))
    assert min(each.decibels for each in result.layers) > 25
