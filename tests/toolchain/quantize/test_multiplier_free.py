"""A network without multipliers: its layers by hand, near the float network, the same on the cpu backend."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.model.float_reference import all_tensors, network_input
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Add, AveragePool, BatchNorm, Conv, Dense, GlobalAverage, MaxPool, Product, Relu
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.compare import real
from edgemeta.toolchain.quantize.multiplier_free import multiplier_free, require_multiplier_free, shifted_sum
from edgemeta.toolchain.quantize.ranges import Statistics
from edgemeta.toolchain.quantize.run import integer_session
from tests.float_networks import conv, norm
from tests.toolchain.conftest import trace


def rounded(weight: Any) -> tuple[Any, PowerOfTwoWeights]:
    """Weights as powers of two of four bits, and their codes."""
    least = 2.0 ** (float(np.floor(np.log2(np.abs(weight).max() * 4 / 3))) - 3)
    exponent = np.clip(np.floor(np.log2(np.maximum(np.abs(weight) / least, 0.1) * 4 / 3)), -1, 3)
    values = np.where(exponent < 0, 0, np.sign(weight) * 2.0**exponent)
    codes = np.where(exponent < 0, 0, exponent + 1 + 8 * (weight < 0)).astype(np.uint8)
    return (values * least).astype(np.float32), PowerOfTwoWeights(codes, 4, np.array([least]))


@pytest.fixture
def network() -> FloatModel:
    """All layers of the scheme: batch norms of both signs and of 0, ReLU6, two dense layers, pools with 9 and 64."""
    rng, pad = np.random.default_rng(11), (1, 1, 1, 1)
    first = norm("n0", "c0", 8, rng)
    gamma = first.gamma.copy()
    gamma[1], gamma[2], gamma[3] = -gamma[1], 0.0, 1e-9
    layers = (
        conv("c0", "input", (8, 3, 3, 3), rng, padding=pad),
        replace(first, gamma=gamma),
        Relu("r0", "n0", 6.0),
        conv("c1", "r0", (8, 3, 3, 1), rng, bias=rng.normal(0, 0.3, 8).astype(np.float32), padding=pad, groups=8),
        Add("a1", ("r0", "c1")),
        Relu("r1", "a1"),
        MaxPool("m", "r1", kernel=(2, 2), stride=(2, 2)),
        AveragePool("p", "m", kernel=(3, 3), stride=(2, 2), padding=pad),
        conv("c2", "p", (12, 1, 1, 8), rng, dilation=(1, 1)),
        norm("n2", "c2", 12, rng),
        GlobalAverage("g", "n2"),
        Dense(
            "d",
            "g",
            weights=rng.normal(0, 0.4, (9, 12)).astype(np.float32),
            bias=rng.normal(0, 1, 9).astype(np.float32),
        ),
        Relu("rd", "d"),
        Dense(
            "out",
            "rd",
            weights=rng.normal(0, 0.4, (10, 9)).astype(np.float32),
            bias=rng.normal(0, 1, 10).astype(np.float32),
        ),
    )
    return FloatModel("free", (32, 32, 3), layers, ("out",), Classification(tuple("abcdefghij")))


def made(model: FloatModel, images: Any) -> tuple[FloatModel, Model]:
    """The float network with rounded weights, and its integer network."""
    layers, codes = [], {}
    for layer in model.layers:
        if isinstance(layer, Conv | Dense):
            weight, codes[layer.name] = rounded(layer.weights)
            layer = replace(layer, weights=weight)
        layers.append(layer)
    exact = replace(model, layers=tuple(layers))
    return exact, multiplier_free(exact, codes, Statistics(exact, blocks_of(exact), images(exact)))


def test_nothing_multiplies(network: FloatModel, images: Any) -> None:
    _, integer = made(network, images)
    encode(integer)
    for layer in integer.layers:
        assert not isinstance(getattr(layer, "requantize", None), q.Multiplier), layer.name
        if isinstance(layer, q.Conv | q.Dense):
            assert isinstance(layer.weights, PowerOfTwoWeights)
        if isinstance(layer, q.Add):
            assert all(factor & (factor - 1) == 0 for factor in layer.multipliers)
        if layer.output.bits == 8:
            assert layer.output.zero_point == 0
        assert np.log2(layer.output.scale) % 1 == 0


def test_every_tensor_is_near_its_float_tensor(network: FloatModel, images: Any, pixels: Any) -> None:
    exact, integer = made(network, images)
    found, wanted = trace(integer, images(exact)), all_tensors(exact, network_input(exact, pixels))
    types = integer.types
    for block in blocks_of(exact)[:-1]:
        limits = (types[block.name].lo * types[block.name].scale, types[block.name].hi * types[block.name].scale)
        off = np.abs(real(integer, block.name, found[block.name]) - np.clip(wanted[block.after], *limits))
        assert off.mean() < 3 * types[block.name].scale, block.name
    logits = wanted["out"].reshape(20, 10)
    off = np.abs(real(integer, "out", found["out"]).reshape(20, 10) - logits)
    assert off.mean() < 0.05 * logits.std() + 0.02


def test_the_cpu_backend_gives_the_same_integers(network: FloatModel, images: Any) -> None:
    exact, integer = made(network, images)
    batch = np.concatenate(list(images(exact)))
    extremes = np.stack([np.full_like(batch[0], value) for value in (-128, 127)])
    for each in (batch, extremes):
        assert np.array_equal(integer_session(integer).run(each)[0], reference.run(integer, each)[0])


def test_one_channel_by_hand(images: Any) -> None:
    """One 1x1 convolution 0.5 x, batch norm 2 y + 1, ReLU: y = clamp(x + 1), both in steps of 1 / 128."""
    one = np.ones(1, np.float32)
    layers = (
        Conv("c", "input", weights=np.array([0.5, 0, 0], np.float32).reshape(1, 1, 1, 3)),
        BatchNorm("n", "c", 2 * one, one, 0 * one, one, 0.0),
        Relu("r", "n"),
        GlobalAverage("g", "r"),
        Dense("d", "g", weights=np.ones((2, 1), np.float32)),
    )
    _, integer = made(FloatModel("one", (32, 32, 3), layers, ("d",), Classification(("a", "b"))), images)
    first = integer.layers[0]
    assert isinstance(first, q.Conv)
    assert (first.output.signed, first.output.scale) == (False, 2.0**-7)
    image = np.zeros((1, 32, 32, 3), np.int8)
    image[0, 0, :8, 0] = [-128, -127, -64, 0, 1, 2, 64, 127]
    found = reference.trace(integer, image)["c"][0, 0, :8, 0]
    wanted = [max(0, min(255, x + 128)) for x in image[0, 0, :8, 0].tolist()]
    assert np.abs(found - np.array(wanted)).max() <= 1


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-20, 20))
def test_sums_are_exact_ratios(a: int, b: int, out: int) -> None:
    types = [q.TensorType((1, 1, 1), scale=2.0**exponent) for exponent in (a, b, out)]
    shift = max(0, out - min(a, b))
    far = shift > 29 or max(a, b) - out + shift > 21
    if far:
        with pytest.raises(QuantizeError, match="layer 'sum': adds tensors of scales"):
            shifted_sum(*types, "sum")
        return
    pair, found = shifted_sum(*types, "sum")
    assert found == shift
    assert [factor * 2.0**-shift for factor in pair] == [2.0 ** (a - out), 2.0 ** (b - out)]
    assert shift == 0 or min(pair) == 1


def test_other_layers_and_scales_are_refused(images: Any) -> None:
    dense = Dense("d", "g", weights=np.ones((2, 3), np.float32))
    layers = (Product("p", ("input", "input")), GlobalAverage("g", "p"), dense)
    model = FloatModel("product", (32, 32, 3), layers, ("d",), Classification(("a", "b")))
    for refused in (lambda: require_multiplier_free(model), lambda: made(model, images)):
        with pytest.raises(QuantizeError, match="layer 'p' is a Product, which scheme incremental does not have"):
            refused()
    types = [q.TensorType((1, 1, 1), scale=scale) for scale in (0.5, 0.3, 1.0)]
    with pytest.raises(QuantizeError, match="expected ratios that are powers of two"):
        shifted_sum(*types, "sum")
