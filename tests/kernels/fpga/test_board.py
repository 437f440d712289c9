"""Networks behind a serial line through their two pins: Verilator at a pseudo terminal, the program as the service."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.verilog import serial_credits
from edgemeta.kernels.fpga.simulate.board import SimulatedBoard
from edgemeta.kernels.fpga.simulate.model import missing_tools
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import TensorType
from edgemeta.plugins.api import BackendError, Session, SessionLostError
from edgemeta.plugins.fpga.backend import BACKEND
from edgemeta.plugins.fpga.serial_frames import (
    ANSWER,
    GREETING,
    HELLO,
    IMAGE,
    REFUSAL,
    Frame,
    FrameReader,
    Greeting,
    encode,
    from_board,
    seed_of,
)
from tests.conformance.power_of_two import PowerOfTwoBuilder
from tests.plugins.fpga.test_backend import small_model

pytestmark = pytest.mark.gate("15 s: Verilator compiles a small network")

MODEL = small_model()
IMAGES = np.random.default_rng(3).integers(-128, 128, (150, 5, 5, 3)).astype(np.int8)
EXPECTED = reference.run(MODEL, IMAGES)[0]
SEED = seed_of(bytes.fromhex(MODEL.digest))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def board(cache: Path) -> Iterator[SimulatedBoard]:
    with SimulatedBoard(choose_foldings(MODEL), cache) as plugged:
        yield plugged


def session_on(board: SimulatedBoard, model: Model = MODEL, timeout: int = 60) -> Session:
    return BACKEND.compile(model, {"transport": "serial", "port": board.port, "timeout": timeout})


def check(board: SimulatedBoard, count: int) -> None:
    session = session_on(board)
    assert (session.run(IMAGES[:count])[0] == EXPECTED[:count]).all()
    session.close()


def raw(board: SimulatedBoard, data: bytes, frames: int, model: Model = MODEL) -> list[Frame]:
    """Frames that come when a program writes bytes of its own; none are waited for if `frames` is 0."""
    size = reference.run(model, IMAGES[:1])[0].nbytes
    reader, found = FrameReader(from_board(size, bytes.fromhex(model.digest))), list[Frame]()
    with Path(board.port).open("r+b", buffering=0) as line:
        line.write(data)
        while len(found) < frames:
            found += reader.feed(os.read(line.fileno(), 4096))
    return found


def test_logits_through_the_pins_equal_the_reference(board: SimulatedBoard) -> None:
    check(board, len(IMAGES))
    check(board, 1)


def test_a_disturbed_line_gives_right_logits(board: SimulatedBoard, caplog: pytest.LogCaptureFixture) -> None:
    board.disturb(4999)
    check(board, len(IMAGES))
    assert len([record for record in caplog.records if "the line is disturbed" in record.getMessage()]) > 20


def test_a_line_of_noise_is_refused(board: SimulatedBoard) -> None:
    session = session_on(board, timeout=4)
    board.disturb(17)
    with pytest.raises(SessionLostError, match=rf"^backend fpga: {board.port} at 3000000 baud: "):
        session.run(IMAGES[:2])
    with pytest.raises(BackendError, match=rf"^backend fpga: {board.port} at 3000000 baud: "):
        session_on(board, timeout=4)
    board.disturb(0)
    check(board, 3)


def test_a_board_of_another_network_is_refused(board: SimulatedBoard) -> None:
    with pytest.raises(
        BackendError, match=r"made for the model file 121212121212\.\.\., this one is 777777777777\.\.\."
    ):
        session_on(board, replace(MODEL, digest="77" * 32))
    image = Frame(IMAGE, 0, IMAGES[0].tobytes())
    found = raw(board, encode(image, SEED ^ 1) + encode(image, SEED), 2)
    assert [(each.kind, each.number) for each in found] == [(REFUSAL, 0), (ANSWER, 0)]


@pytest.mark.parametrize("length", [1, 9, 40, 87])
def test_a_part_of_a_frame_is_forgotten(board: SimulatedBoard, length: int) -> None:
    raw(board, encode(Frame(IMAGE, 0, IMAGES[1].tobytes()), SEED)[:length], 0)
    check(board, 2)


def test_an_image_of_another_number_or_size_is_refused(board: SimulatedBoard) -> None:
    image = IMAGES[2].tobytes()
    other = encode(Frame(IMAGE, 1, image), SEED)
    longer = encode(Frame(IMAGE, 0, image + b"\0"), SEED)
    found = raw(board, other + longer + encode(Frame(IMAGE, 0, image), SEED), 3)
    assert [(each.kind, each.number) for each in found] == [(REFUSAL, 0), (REFUSAL, 0), (ANSWER, 0)]
    assert found[2].payload == EXPECTED[2].astype("<i4").tobytes()


def test_a_cable_that_is_cut_ends_the_session_and_the_next_one_runs(board: SimulatedBoard) -> None:
    session = session_on(board)
    assert (session.run(IMAGES[:2])[0] == EXPECTED[:2]).all()
    raw(board, encode(Frame(IMAGE, 2, IMAGES[0].tobytes()), SEED)[:50], 0)
    board.cut()
    with pytest.raises(SessionLostError, match=rf"^backend fpga: {board.port}: the cable is cut: "):
        session.run(IMAGES[:1])
    for _ in range(20):  # a cable that is pulled before the board has looked at it
        board.plug()
        board.cut()
    board.plug()
    check(board, 4)


def test_a_slow_network_with_outputs_of_8_bits_has_credits(cache: Path) -> None:
    """An image takes longer to compute than to send: the third one on the way is refused, and right afterwards."""
    net = PowerOfTwoBuilder(TensorType((5, 5, 3)), 5)
    model = replace(net.model(net.pool("pool", net.conv("conv", INPUT, 60))), digest="ab" * 32)
    logits = reference.run(model, IMAGES[:9])[0]
    with SimulatedBoard(choose_foldings(model, 10**6), cache) as board:
        session = session_on(board, model)
        assert (session.run(IMAGES[:9])[0] == logits).all()
        session.close()
        first, second, third = (
            encode(Frame(IMAGE, number, IMAGES[number].tobytes()), seed_of(b"\xab" * 4)) for number in range(3)
        )
        found = raw(board, encode(Frame(HELLO, 7, b"")) + first + second + third, 4, model)
        assert sorted((each.kind, each.number) for each in found) == [
            (GREETING, 7),
            (ANSWER, 0),
            (ANSWER, 1),
            (REFUSAL, 2),
        ]
        (greeting,) = [Greeting.of(each.payload) for each in found if each.kind == GREETING]
        assert greeting.credits == serial_credits()
        (last,) = raw(board, third, 1, model)
        assert (last.kind, last.number, last.payload) == (ANSWER, 2, logits[2].tobytes())
