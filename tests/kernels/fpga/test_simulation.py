"""Whole networks as Verilator models: logits equal to the reference's, predicted clocks, registers, loading."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.network import FpgaError, Network, plan_network
from edgemeta.kernels.fpga.generate.registers import load_writes
from edgemeta.kernels.fpga.simulate.model import Simulation, compile_model, missing_tools
from edgemeta.model import reference
from edgemeta.model.layers import Conv
from edgemeta.model.weights import PowerOfTwoWeights
from tests.conformance.power_of_two import random_resnet8

pytestmark = pytest.mark.gate("40 s: Verilator compiles a network of 16 engines")

FOLDINGS = {"conv0": 1, "conv1": 1, "conv2": 2, "conv5": 2, "fc": 8}


@pytest.fixture(scope="module")
def network() -> Network:
    return plan_network(random_resnet8(side=12, width=2), FOLDINGS)


@pytest.fixture(scope="module")
def library(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    return compile_model(network, tmp_path_factory.mktemp("simulation"), level=0)


@pytest.fixture
def simulation(network: Network, library: Path) -> Simulation:
    return Simulation(network, library)


def images(network: Network, count: int) -> "np.typing.NDArray[np.int8]":
    batch = np.random.default_rng(9).integers(-128, 128, (count, *network.model.input.shape)).astype(np.int8)
    batch[0], batch[1] = -128, 127
    return batch


@pytest.mark.parametrize("stall", [0, 60, 200, 250])
def test_logits_equal_the_reference(network: Network, simulation: Simulation, stall: int) -> None:
    batch = images(network, 6)
    assert (simulation.run(batch, stall, seed=stall) == reference.run(network.model, batch)[0]).all()


def test_an_image_takes_about_the_clocks_of_the_slowest_engine(network: Network, simulation: Simulation) -> None:
    _, clocks = simulation.timed(images(network, 6))
    interval = np.diff(clocks.astype(np.int64))[-1]
    rows = 12  # a window waits in registers for five clocks more at the beginning of each
    assert network.interval <= interval <= 1.05 * network.interval + 5 * rows


def test_registers_count_and_a_reset_in_mid_frame_forgets_it(network: Network, simulation: Simulation) -> None:
    batch = images(network, 2)
    assert [simulation.read(at) for at in (0x00, 0x04, 0x20, 0x24)] == [0x4D474445, 1, batch[0].size, 10]
    simulation.offer(batch[0].tobytes()[:100], 200)
    simulation.write(0x08, 1)
    assert (simulation.run(batch) == reference.run(network.model, batch)[0]).all()
    assert [simulation.read(at) for at in (0x0C, 0x10, 0x14)] == [0, 2, 2]
    assert simulation.read(0x28) & 1 == 1
    simulation.write(0x28, 0x101)
    assert simulation.read(0x28) == 0x100


def test_another_network_is_loaded_without_synthesis(network: Network, library: Path) -> None:
    """Kernels turned around: the same bounds of accumulators, other weights; all words go through the registers."""
    layers = [
        replace(layer, weights=replace(layer.weights, codes=layer.weights.codes[:, ::-1, ::-1].copy()))
        if isinstance(layer, Conv) and isinstance(layer.weights, PowerOfTwoWeights)
        else layer
        for layer in network.model.layers
    ]
    other = plan_network(replace(network.model, layers=tuple(layers), digest="ab" * 32), FOLDINGS)
    simulation = Simulation(network, library)
    batch = images(network, 3)
    simulation.load(other)
    found = simulation.run(batch)
    assert (found == reference.run(other.model, batch)[0]).all()
    assert (found != reference.run(network.model, batch)[0]).any()
    assert simulation.read(0x40) == 0xABABABAB


def test_a_network_of_other_parameters_is_not_loaded(network: Network) -> None:
    with pytest.raises(FpgaError, match="layer 'conv1' needs FOLDS 2, the netlist has 1: it must be synthesized anew"):
        load_writes(network, plan_network(network.model, {**FOLDINGS, "conv1": 2}))


def test_a_network_that_hangs_is_an_error(network: Network, simulation: Simulation) -> None:
    with pytest.raises(FpgaError, match=r"the simulated network hangs: 0 of 10 words after 50 clocks"):
        simulation.run(images(network, 2)[:1], limit=50)
