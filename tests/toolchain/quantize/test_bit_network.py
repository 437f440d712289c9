"""Networks with chosen bits: exact on the backends, near the float network, and as the choice says."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import encode, parse
from edgemeta.model.graph import INPUT
from edgemeta.model.preprocess import look_up
from edgemeta.model.weights import BinaryWeights
from edgemeta.toolchain.float_model.forward import in_order
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weight_schemes import weight_scheme


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
