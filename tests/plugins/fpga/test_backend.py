"""The fpga backend: options, refusals, the digest, a device that hangs, and the probe."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.registers import DIGEST, EDGM, IDENTITY, IN_WORDS, OUT_WORDS
from edgemeta.kernels.fpga.simulate import model as simulate
from edgemeta.kernels.fpga.simulate.model import missing_tools
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import TensorType
from edgemeta.model.zoo import find
from edgemeta.plugins.api import BackendError, OptionError, SessionLostError
from edgemeta.plugins.compile import UnsupportedLayerError, compile_model
from edgemeta.plugins.fpga.backend import BACKEND, FpgaBackend
from edgemeta.plugins.fpga.session import FpgaSession, check_device
from edgemeta.plugins.registry import choose
from tests.conformance.power_of_two import PowerOfTwoBuilder


def small_model() -> Model:
    net = PowerOfTwoBuilder(TensorType((5, 5, 3)), 4)
    x = net.conv("c", INPUT, 2)
    return replace(net.model(net.dense("d", net.pool("p", x), 3)), digest="12" * 32)


class FakeDevice:
    """Registers and a run that a test decides."""

    def __init__(self, registers: dict[int, int], error: FpgaError | None = None) -> None:
        self.registers, self.error, self.closed = registers, error, False

    def run(self, batch: Any, *, deadline: float) -> Any:
        if self.error is not None:
            raise self.error
        return np.zeros((len(batch), 1, 1, 3), np.int32)

    def read(self, address: int) -> int:
        return self.registers.get(address, 0)

    def close(self) -> None:
        self.closed = True


MODEL = small_model()
IMAGE = np.zeros((1, 5, 5, 3), np.int8)
RIGHT = {IDENTITY: EDGM, IN_WORDS: 75, OUT_WORDS: 3} | {DIGEST + 4 * part: 0x12121212 for part in range(8)}


@pytest.mark.parametrize(
    ("registers", "text"),
    [
        ({}, "backend fpga: the device is no edgemeta accelerator: its identity is wrong"),
        (
            RIGHT | {DIGEST: 0xFF},
            "backend fpga: the netlist was made for the model file ff0000001212..., this one is 121212121212...: "
            "build it anew with edgemeta fpga build",
        ),
        (
            RIGHT | {IN_WORDS: 76},
            "backend fpga: the accelerator reads 76 and writes 3 words per image, the model has 75 and 3",
        ),
    ],
)
def test_a_device_with_another_network_is_refused(registers: dict[int, int], text: str) -> None:
    with pytest.raises(BackendError) as caught:
        check_device(FakeDevice(registers), MODEL)
    assert str(caught.value) == text


def test_a_device_that_hangs_ends_the_session() -> None:
    device = FakeDevice(RIGHT, FpgaError("the network hangs"))
    session = FpgaSession(MODEL, device, 1)
    with pytest.raises(SessionLostError, match=r"^backend fpga: the network hangs$"):
        session.run(IMAGE)
    assert device.closed
    with pytest.raises(SessionLostError, match="the network hangs; the session is closed"):
        session.run(IMAGE)


def test_a_device_that_reports_an_error_ends_the_session() -> None:
    session = FpgaSession(MODEL, FakeDevice(RIGHT | {0x0C: 2}), 1)
    with pytest.raises(SessionLostError, match="the device reports errors 0x2"):
        session.run(IMAGE)


def test_a_closed_session_runs_no_more() -> None:
    device = FakeDevice(RIGHT)
    session = FpgaSession(MODEL, device, 1)
    session.run(IMAGE)
    session.close()
    session.close()
    assert device.closed
    with pytest.raises(BackendError, match="the session is closed"):
        session.run(IMAGE)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"transport": "pcie"}, "option transport is 'pcie', expected one of simulated, axi, serial"),
        ({"cycle": 1}, "unknown option 'cycle', did you mean cycles"),
        ({"cycles": 0}, "option cycles is 0, expected a whole number"),
        ({"timeout": 0}, "option timeout is 0, expected a whole number from 1 to 3600"),
        ({"cache": 3}, "option cache is 3, expected the path of a folder"),
    ],
)
def test_wrong_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        BACKEND.compile(MODEL, options)


def test_a_goal_out_of_reach_is_refused() -> None:
    with pytest.raises(BackendError, match="backend fpga: layer 'c' takes at least"):
        BACKEND.compile(MODEL, {"cycles": 10})


def test_the_shipped_network_is_refused_by_the_layer_that_multiplies() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"layer 'conv0': requantization multiplies by \d+, which"):
        compile_model(load(find("resnet8-cifar10")), BACKEND, {}, "refuse")


def test_a_machine_without_verilator_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(simulate.shutil, "which", lambda name: None if name == "verilator" else f"/usr/bin/{name}")
    probe = FpgaBackend(tmp_path).probe()
    assert (probe.available, probe.score) == (False, 0)
    missing = "transport simulated: verilator is not installed (Debian packages verilator, g++, make)"
    others = f"transport axi: {tmp_path}/uio0 is not there; transport serial: no ttyUSB* in {tmp_path}"
    assert probe.reason == f"{missing}; {others}"
    with pytest.raises(BackendError, match="backend fpga is not available: transport simulated: verilator is not"):
        choose("fpga")


def test_auto_never_takes_a_simulation() -> None:
    assert BACKEND.probe().score == 0
    assert choose("auto").name != "fpga"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    return tmp_path_factory.mktemp("cache")


@pytest.mark.gate("15 s: Verilator compiles a small network")
def test_a_session_equals_the_reference_and_its_simulation_is_kept(cache: Path) -> None:
    options = {"cache": str(cache)}
    batch = np.random.default_rng(1).integers(-128, 128, (4, 5, 5, 3)).astype(np.int8)
    session = BACKEND.compile(MODEL, options)
    assert (session.run(batch)[0] == reference.run(MODEL, batch)[0]).all()
    session.close()
    made = {each: each.stat().st_mtime_ns for each in cache.rglob("simulation.so")}
    session = BACKEND.compile(MODEL, options)
    assert (session.run(batch[:1])[0] == reference.run(MODEL, batch[:1])[0]).all()
    session.close()
    assert {each: each.stat().st_mtime_ns for each in cache.rglob("simulation.so")} == made
    assert len(made) == 1


@pytest.mark.gate("15 s: Verilator compiles a small network")
def test_a_simulation_that_takes_too_long_is_lost_within_its_deadline(cache: Path) -> None:
    model = replace(MODEL, digest="34" * 32)
    session = BACKEND.compile(model, {"cache": str(cache), "timeout": 1})
    many = np.zeros((200_000, 5, 5, 3), np.int8)
    with pytest.raises(SessionLostError, match=r"backend fpga: the simulated network hangs: \d+ of 600000 words"):
        session.run(many)
