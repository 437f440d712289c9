"""The transport `axi` on a fake board: registers and DMA, with the Verilator model behind it; UIO files; a hang."""

import mmap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.registers import (
    CONTROL,
    DIGEST,
    EDGM,
    IDENTITY,
    IMAGES_WRITTEN,
    IN_WORDS,
    OUT_WORDS,
)
from edgemeta.kernels.fpga.simulate.model import Simulation, missing_tools, simulation_library
from edgemeta.model import reference
from edgemeta.plugins.api import BackendError, OptionError, SessionLostError
from edgemeta.plugins.fpga import axi_dma as dma
from edgemeta.plugins.fpga.axi import AxiDevice
from edgemeta.plugins.fpga.backend import FpgaBackend
from edgemeta.plugins.fpga.session import FpgaSession, check_device
from edgemeta.plugins.fpga.uio import DmaBuffer, UioDevice
from tests.plugins.fpga.fake_axi import FakeBuffer, FakeDma
from tests.plugins.fpga.test_backend import small_model

MODEL = small_model()
IMAGES = np.random.default_rng(6).integers(-128, 128, (5, 5, 5, 3)).astype(np.int8)


class FakeRegisters(dict[int, int]):
    def read(self, address: int) -> int:
        return self.get(address, 0)

    def write(self, address: int, value: int) -> None:
        self[address] = value


def registers() -> FakeRegisters:
    digest = {DIGEST + 4 * part: 0x12121212 for part in range(8)}
    return FakeRegisters({IDENTITY: EDGM, IN_WORDS: 75, OUT_WORDS: 3} | digest)


def board(hangs: bool = False, error: int = 0, size: int = 4096) -> tuple[list[FakeBuffer], FakeDma]:
    """Answers with the reference's logits."""

    def stream(image: Any) -> Any:
        return reference.run(MODEL, image.view(np.int8).reshape(1, 5, 5, 3))[0].view(np.uint8).ravel()

    buffers = [FakeBuffer(0x1_2000_0000, size), FakeBuffer(0x3000_0000, size)]
    return buffers, FakeDma(stream, buffers, hangs, error)


def device(hangs: bool = False, error: int = 0, size: int = 4096) -> tuple[AxiDevice, FakeDma]:
    buffers, fake = board(hangs, error, size)
    return AxiDevice(MODEL, registers(), fake, buffers[0], buffers[1], None), fake


def test_every_image_passes_the_dma() -> None:
    opened, fake = device()
    opened.prepare()
    session = FpgaSession(MODEL, opened, 5)
    assert (session.run(IMAGES)[0] == reference.run(MODEL, IMAGES)[0]).all()
    lengths = [entry for entry in fake.log if entry[0] in (dma.READ_LENGTH, dma.WRITE_LENGTH)]
    assert lengths == [(dma.WRITE_LENGTH, 12), (dma.READ_LENGTH, 75)] * 5  # the result's channel first
    session.close()
    session.close()
    assert fake.log[-1] == (dma.READ_CONTROL, dma.RESET)


def test_a_device_that_hangs_is_lost_within_its_deadline() -> None:
    opened, fake = device(hangs=True)
    session = FpgaSession(MODEL, opened, 1)
    begin = time.monotonic()
    with pytest.raises(SessionLostError, match=r"^backend fpga: the device hangs: no result in the time given$"):
        session.run(IMAGES[:1])
    assert 0.9 < time.monotonic() - begin < 30
    assert fake.registers[dma.WRITE_STATUS] & dma.HALTED  # it does not write to the buffer any more


def test_an_error_of_the_dma_loses_the_session() -> None:
    session = FpgaSession(MODEL, device(error=1 << 5)[0], 5)
    with pytest.raises(SessionLostError, match="the DMA reports an error, status 0x20"):
        session.run(IMAGES[:1])


def test_a_buffer_that_is_too_small_is_refused() -> None:
    with pytest.raises(FpgaError, match="a DMA buffer has 64 bytes, an image needs 75"):
        device(size=64)[0].prepare()


@pytest.mark.gate("15 s: Verilator compiles a small network")
def test_the_verilator_model_behind_the_fake_board_equals_the_reference(tmp_path: Path) -> None:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    network = choose_foldings(MODEL)
    simulation = Simulation(network, simulation_library(network, tmp_path))
    buffers = [FakeBuffer(0x1000, 100), FakeBuffer(0x9000, 100)]
    fake = FakeDma(
        lambda image: simulation.run(image.view(np.int8).reshape(1, 5, 5, 3)).view(np.uint8).ravel(), buffers
    )
    opened = AxiDevice(MODEL, simulation, fake, buffers[0], buffers[1], None, simulation.close)
    check_device(opened, MODEL)
    with pytest.raises(
        BackendError, match=r"the netlist was made for the model file 121212121212\.\.\., this one is 565"
    ):
        check_device(opened, replace(MODEL, digest="56" * 32))
    opened.prepare()
    session = FpgaSession(MODEL, opened, 60)
    assert (session.run(IMAGES)[0] == reference.run(MODEL, IMAGES)[0]).all()
    assert simulation.read(IMAGES_WRITTEN) == 5
    session.close()


@pytest.fixture
def system(tmp_path: Path) -> tuple[Path, Path]:
    """/dev and /sys/class with two UIO devices and two buffers, as plain files."""
    devices, classes = tmp_path / "dev", tmp_path / "class"
    devices.mkdir()
    for number in (0, 1):
        (devices / f"uio{number}").write_bytes(bytes(mmap.PAGESIZE))
        maps = classes / "uio" / f"uio{number}" / "maps" / "map0"
        maps.mkdir(parents=True)
        (maps / "size").write_text("0x1000\n")
        (devices / f"udmabuf{number}").write_bytes(bytes(mmap.PAGESIZE))
        folder = classes / "u-dma-buf" / f"udmabuf{number}"
        folder.mkdir(parents=True)
        (folder / "phys_addr").write_text("0x1f400000\n")
        (folder / "size").write_text("4096\n")
    return devices, classes


def test_registers_and_buffers_are_mapped(system: tuple[Path, Path]) -> None:
    uio, buffer = UioDevice("uio0", *system), DmaBuffer("udmabuf0", *system)
    uio.write(CONTROL, 0x01020304)
    assert uio.read(CONTROL) == 0x01020304
    buffer.data[:2] = 7
    assert (system[0] / "uio0").read_bytes()[8:12] == bytes([4, 3, 2, 1])
    assert (system[0] / "udmabuf0").read_bytes()[:3] == bytes([7, 7, 0])
    assert buffer.address == 0x1F400000
    uio.close()
    uio.close()


def test_a_device_without_an_accelerator_is_refused_and_one_that_is_missing_is_named(system: tuple[Path, Path]) -> None:
    backend = FpgaBackend(*system)
    assert "transport axi: UIO device and DMA buffer found" in backend.probe().reason
    with pytest.raises(BackendError, match=r"^backend fpga: the device is no edgemeta accelerator"):
        backend.compile(MODEL, {"transport": "axi", "wait": "poll"})
    with pytest.raises(BackendError, match=r"^backend fpga: .*/uio/uio7/maps/map0/size: No such file or directory$"):
        backend.compile(MODEL, {"transport": "axi", "dma": "uio7"})
    (system[0] / "udmabuf0").unlink()
    with pytest.raises(BackendError, match=r"^backend fpga: .*/udmabuf0: No such file or directory$"):
        backend.compile(MODEL, {"transport": "axi"})
    assert "transport axi: " in backend.probe().reason
    assert "udmabuf0 is not there" in backend.probe().reason


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"registers": "/dev/uio0"}, "option registers is '/dev/uio0', expected the name of a device, such as uio0"),
        ({"wait": "spin"}, "option wait is 'spin', expected one of interrupt, poll"),
        ({"cycles": 5}, "unknown option 'cycles'"),
    ],
)
def test_wrong_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        FpgaBackend().compile(MODEL, {"transport": "axi", **options})
