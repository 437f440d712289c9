"""Captures that block: the wait is bounded, and so is the number of abandoned threads."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edgemeta.daemon.capture.source import Pixels, SourceError
from edgemeta.daemon.capture.sources.reader_thread import MAX_HANGING, ReaderThread

PIXELS = np.zeros((2, 2, 3), np.uint8)


class Hanging:
    """A capture that hangs in `read` after some pictures, until let go, as a driver does."""

    def __init__(self, pictures: int, let_go: threading.Event) -> None:
        self.pictures = pictures
        self.let_go = let_go
        self.released = threading.Event()

    def read(self) -> Pixels:
        if self.pictures == 0:
            self.let_go.wait()
        self.pictures -= 1
        return PIXELS

    def release(self) -> None:
        self.released.set()


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_hanging_read_is_abandoned_and_releases_its_capture_when_it_returns(let_go: threading.Event) -> None:
    capture = Hanging(1, let_go)
    reader = ReaderThread("camera x", 1.0, lambda: capture)
    reader.open()
    reader.read()
    with pytest.raises(SourceError, match=r"camera x gave no frame for 1 s"):
        reader.read()
    reader.close()  # and is back here while the capture hangs
    assert not capture.released.is_set()
    let_go.set()
    assert capture.released.wait(60)


def test_a_hanging_open_is_abandoned(let_go: threading.Event) -> None:
    capture = Hanging(1, let_go)

    def opener() -> Hanging:
        let_go.wait()
        return capture

    reader = ReaderThread("camera x", 0.1, opener)
    reader.open()
    with pytest.raises(SourceError, match="gave no frame"):
        reader.read()
    reader.close()
    let_go.set()
    assert capture.released.wait(60)


def test_the_number_of_hanging_readers_is_limited(let_go: threading.Event) -> None:
    captures: list[Hanging] = []

    def opener() -> Hanging:
        captures.append(Hanging(0, let_go))
        return captures[-1]

    reader = ReaderThread("camera x", 0.02, opener)
    for _ in range(MAX_HANGING):
        reader.open()
        with pytest.raises(SourceError, match="gave no frame"):
            reader.read()
        reader.close()
    for _ in range(20):
        with pytest.raises(SourceError, match="hangs in 3 reader threads"):
            reader.open()
        reader.close()
    assert len(captures) == MAX_HANGING
    let_go.set()
    assert all(capture.released.wait(60) for capture in captures)


def test_every_frame_is_passed_on_in_order(let_go: threading.Event) -> None:
    reader = ReaderThread("camera x", 60.0, lambda: Hanging(100, let_go))
    reader.open()
    times = [reader.read().captured_ns for _ in range(100)]
    assert times == sorted(times)
    reader.close()


def test_an_error_is_raised_unchanged() -> None:
    def opener() -> Hanging:
        raise SourceError("camera x cannot be opened")

    reader = ReaderThread("camera x", 60.0, opener)
    reader.open()
    with pytest.raises(SourceError, match="camera x cannot be opened"):
        reader.read()
    reader.close()
    reader.close()


def test_an_unexpected_error_reaches_the_camera_thread() -> None:
    def opener() -> Hanging:
        raise ZeroDivisionError

    reader = ReaderThread("camera x", 60.0, opener)
    reader.open()
    with pytest.raises(ZeroDivisionError):
        reader.read()
    reader.close()
