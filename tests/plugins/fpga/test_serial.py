"""The transport `serial` on a fake board at a pseudo terminal: credits, every fault of a line, what is said of it."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.plugins.api import BackendError, OptionError, Session, SessionLostError
from edgemeta.plugins.fpga import serial_port
from edgemeta.plugins.fpga.backend import BACKEND, FpgaBackend
from tests.plugins.fpga.fake_serial import CREDITS, FakeSerialBoard
from tests.plugins.fpga.test_backend import small_model

MODEL = small_model()
IMAGES = np.random.default_rng(6).integers(-128, 128, (260, 5, 5, 3)).astype(np.int8)
EXPECTED = reference.run(MODEL, IMAGES)[0]


def session_on(board: FakeSerialBoard, timeout: int = 60) -> Session:
    return BACKEND.compile(MODEL, {"transport": "serial", "port": board.port, "timeout": timeout})


def test_logits_equal_the_reference_over_all_numbers() -> None:
    with FakeSerialBoard(MODEL) as board:
        session = session_on(board)
        assert (session.run(IMAGES)[0] == EXPECTED).all()  # more images than numbers
        for at in range(3):
            assert (session.run(IMAGES[at : at + 1])[0] == EXPECTED[at : at + 1]).all()
        session.close()
        session.close()
        assert (board.hellos, board.images) == (1, 263)
        assert 1 <= board.most <= CREDITS


@pytest.mark.parametrize("fault", ["refuse", "noise", "damage", "number"])
def test_what_a_line_damages_is_sent_again(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    with FakeSerialBoard(MODEL, ("", fault, "", "", fault)) as board:
        session = session_on(board)
        assert (session.run(IMAGES[:8])[0] == EXPECTED[:8]).all()
        session.close()
        assert board.hellos == 3
    reasons = {"refuse": "the board refused a frame", "number": "a frame out of order"}
    for line in (record.getMessage() for record in caplog.records if "disturbed" in record.getMessage()):
        assert reasons.get(fault, "bytes that are no frame") in line


def test_a_silent_image_is_sent_again_after_a_quarter_of_the_time() -> None:
    with FakeSerialBoard(MODEL, ("silence", "silence")) as board:
        session = session_on(board, 6)
        assert (session.run(IMAGES[:4])[0] == EXPECTED[:4]).all()
        session.close()


@pytest.mark.parametrize(
    ("faults", "timeout", "text"),
    [
        (("refuse",) * 9, 60, "the line is disturbed: the board refused a frame, 3 times for the same image"),
        (("cut",), 60, "the cable is cut: (Input/output error|the port has ended)"),
        (("silence",) * 99, 1, "(the line is disturbed: no answer for .*|2 of 2 images without an answer in time)"),
        (("other",), 60, r"the board holds the model file 000000000000\.\.\. now, expected 121212121212\.\.\."),
    ],
)
def test_a_line_that_is_of_no_use_ends_the_session(faults: tuple[str, ...], timeout: int, text: str) -> None:
    with FakeSerialBoard(MODEL, faults) as board:
        session = session_on(board, timeout)
        with pytest.raises(SessionLostError, match=rf"^backend fpga: {board.port}: {text}$"):
            session.run(IMAGES[:2])
        with pytest.raises(SessionLostError, match="the session is closed"):
            session.run(IMAGES[:2])


def test_a_board_that_wakes_up_late_is_greeted_again() -> None:
    with FakeSerialBoard(MODEL, deaf=2) as board:
        session = session_on(board, 16)
        assert (session.run(IMAGES[:1])[0] == EXPECTED[:1]).all()
        session.close()


def test_what_is_no_board_is_said(tmp_path: Path) -> None:
    with FakeSerialBoard(MODEL, deaf=99) as silent, pytest.raises(BackendError) as caught:
        session_on(silent, 1)
    assert str(caught.value).startswith(f"backend fpga: {silent.port} at 3000000 baud: no answer within 0.")
    with FakeSerialBoard(MODEL, says=b"Ready\r\n") as other, pytest.raises(BackendError) as caught:
        session_on(other, 1)
    assert "bytes but no answer of a board: noise, another rate, or another device" in str(caught.value)
    with FakeSerialBoard(MODEL) as older:
        older.version = 0
        with pytest.raises(BackendError, match="the board speaks version 0 of the frames, expected 1"):
            session_on(older)
    file = tmp_path / "file"
    file.write_bytes(b"")
    for path, text in ((tmp_path / "none", "No such file or directory"), (file, "is no serial port of 3000000 baud")):
        with pytest.raises(BackendError, match=f"{path}.*{text}"):
            BACKEND.compile(MODEL, {"transport": "serial", "port": str(path)})


def test_a_board_of_another_network_and_a_port_in_use_are_refused() -> None:
    other = replace(MODEL, digest="34" * 32)
    with FakeSerialBoard(MODEL) as board:
        session = session_on(board)
        with pytest.raises(BackendError, match=f"^backend fpga: {board.port} is in use by another program$"):
            session_on(board)
        session.close()
        with pytest.raises(BackendError) as caught:
            BACKEND.compile(other, {"transport": "serial", "port": board.port})
        text = "the netlist was made for the model file 121212121212..., this one is 343434343434...: build it anew"
        assert text in str(caught.value)
        session_on(board).close()  # a refused one has freed the port


def test_a_port_of_others_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(serial_port.os, "open", refuse)
    with pytest.raises(BackendError, match="ttyUSB0: Permission denied: is the user in the group dialout"):
        BACKEND.compile(MODEL, {"transport": "serial"})


def test_the_driver_is_asked_to_pass_bytes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that keeps the kernel's serial_struct: the flag ASYNC_LOW_LATENCY is added, all else stays."""
    kept = bytearray(range(128))

    def ioctl(_: int, request: int, content: bytearray) -> int:
        if request == serial_port._TIOCGSERIAL:
            content[:] = kept
        else:
            kept[:] = content
        return 0

    monkeypatch.setattr(serial_port.fcntl, "ioctl", ioctl)
    with FakeSerialBoard(MODEL) as board:
        session_on(board).close()
    before = bytearray(range(128))
    before[17] |= 1 << 5  # bit 13 of the word at 16
    assert kept == before


def test_ports_are_found(tmp_path: Path) -> None:
    (tmp_path / "ttyACM0").touch()
    probe = FpgaBackend(tmp_path).probe()
    assert probe.available
    assert probe.reason.endswith(f"transport serial: {tmp_path}/ttyACM0 is there")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"port": 3}, "option port is 3, expected the path of a serial port"),
        (
            {"baud": 3_000_001},
            "option baud is 3000001, expected a rate of Linux, such as .*, 3000000, 3500000, 4000000",
        ),
        ({"cycles": 5}, "unknown option 'cycles'"),
    ],
)
def test_wrong_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        BACKEND.compile(MODEL, {"transport": "serial", **options})
