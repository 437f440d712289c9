"""Networks of chosen bits, and the types of their feature maps."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import encode, parse
from edgemeta.model.float_reference import in_order
from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove_float import prove_float
from edgemeta.model.weights import BinaryWeights
from edgemeta.toolchain.quantize.bit_network import (
    BitNetwork,
    Bits,
    FeatureMaps,
    image_of_bits,
    least_error_type,
    shifted_type,
)
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.ranges import Histogram, Statistics
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weight_schemes import weight_scheme


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("ends", [(0.0, 5.0), (-3.0, 0.0), (-1.0, 1.3), (0.0, 0.0)])
def test_a_shifted_type_covers_its_range_with_an_exact_zero(bits: int, ends: tuple[float, float]) -> None:
    kind = shifted_type(*ends, (1, 1, 1), bits)
    assert (kind.bits, kind.signed, kind.lo, kind.hi) == (bits, False, 0, 2**bits - 1)
    assert 0 <= kind.zero_point <= kind.hi
    least, greatest = (kind.scale * (each - kind.zero_point) for each in (kind.lo, kind.hi))
    assert least <= ends[0] + kind.scale / 2
    assert greatest >= ends[1] - kind.scale / 2


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_chosen_type_has_no_more_error_than_the_whole_range(bits: int) -> None:
    values = np.random.default_rng(1).laplace(0, 1, 20000).astype(np.float32)
    histogram = Histogram()
    histogram.add(values, float(values.min()), float(values.max()))

    def error(kind: Any) -> float:
        integers = np.clip(np.floor(values / kind.scale + 0.5) + kind.zero_point, 0, kind.hi)
        return float(np.square(kind.scale * (integers - kind.zero_point) - values).mean())

    whole = shifted_type(float(values.min()), float(values.max()), (1, 1, 1), bits)
    assert error(least_error_type(histogram, (1, 1, 1), bits)) <= 1.01 * error(whole)


def test_an_image_of_few_bits_takes_the_nearest_integer(every_layer: FloatModel) -> None:
    image = image_of_bits(every_layer, 3)
    real = (np.arange(256) - 128) / 128
    found = image.kind.scale * (image.table[0].astype(np.float64) - image.kind.zero_point)
    assert np.abs(found - real).max() <= image.kind.scale / 2 * 1.2
    assert set(image.table[0]) == set(range(8))
    assert image_of_bits(every_layer, 8).kind.bits == 8


@pytest.mark.parametrize("name", ["every_layer", "imported_layers"])
def test_maps_that_share_a_type_have_one_number_of_bits(name: str, images: Any, request: pytest.FixtureRequest) -> None:
    model: FloatModel = request.getfixturevalue(name)
    blocks = blocks_of(model)
    maps = FeatureMaps(model, prove_float(model, "x"), blocks, Statistics(model, blocks, images(model)))
    assert set(maps.of_layer) == {block.name for block in blocks if block.has_weights} == set(maps.sizes)
    assert INPUT in maps.names
    types = maps.types(dict.fromkeys(maps.names, 3))
    for block in blocks:
        if block.has_weights:
            assert types[block.inputs[0]].bits == 3
        assert types[block.name].bits == (3 if maps.is_read(block.name) else 8)


def mixed(network: BitNetwork, seed: int) -> Bits:
    rng = np.random.default_rng(seed)
    weights = {name: int(rng.choice(network.scheme.widths)) for name in network.layers}
    return Bits(weights, {name: int(rng.integers(2, 9)) for name in network.maps.names})


@pytest.mark.parametrize("scheme", ["binary", "fixed", "power-of-two"])
@pytest.mark.parametrize("name", ["every_layer", "imported_layers"])
def test_reference_and_cpu_agree_bit_for_bit(
    name: str, scheme: Any, images: Any, pixels: Any, request: pytest.FixtureRequest
) -> None:
    model: FloatModel = request.getfixturevalue(name)
    network = BitNetwork(model, images(model), weight_scheme(scheme), Events())
    for seed in range(2):
        integer = network.build(mixed(network, seed))
        stored = parse(encode(integer), "x")  # proves it
        batch = np.ascontiguousarray(look_up(stored.preprocessing.table, in_order(pixels, model.colour)))
        session = integer_session(stored)
        found = session.run(batch)[0].copy()
        session.close()
        np.testing.assert_array_equal(found, reference.run(stored, batch)[0])


@pytest.mark.parametrize("scheme", ["binary", "fixed"])
def test_eight_bits_everywhere_are_near_the_float_network(every_layer: FloatModel, images: Any, scheme: Any) -> None:
    from edgemeta.toolchain.quantize.compare import Expected

    inputs = images(every_layer)
    network = BitNetwork(every_layer, inputs, weight_scheme(scheme), Events())
    assert Expected(every_layer, inputs).measure(network.build(network.uniform(8, 8)), "x").error < 0.01


def test_the_model_has_the_bits_of_the_choice(every_layer: FloatModel, images: Any) -> None:
    network = BitNetwork(every_layer, images(every_layer), weight_scheme("binary"), Events())
    bits = mixed(network, 7)
    integer = network.build(bits)
    for layer in integer.layers:
        if layer.name in bits.weights:
            weights = layer.weights  # type: ignore[union-attr]
            assert isinstance(weights, BinaryWeights)
            assert len(weights.basis) == bits.weights[layer.name]
    assert integer.input.bits == bits.maps[INPUT]
    assert integer.provenance["feature_bits"] == dict(bits.maps)


def test_a_later_choice_leaves_an_earlier_network_as_it_was(every_layer: FloatModel, images: Any) -> None:
    network = BitNetwork(every_layer, images(every_layer), weight_scheme("binary"), Events())
    before = encode(network.build(network.uniform(3, 4)))
    network.build(network.uniform(5, 2))
    assert encode(network.build(network.uniform(3, 4))) == before
