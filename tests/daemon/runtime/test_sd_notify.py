"""Messages on the service manager's socket, byte for byte, by path and by abstract name."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgemeta.daemon.runtime.sd_notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A bound datagram socket, and its address as NOTIFY_SOCKET names it."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@edgemeta-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        listening.settimeout(60)
        yield listening, address


def test_every_message_has_the_documented_form(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    notifier = Notifier(address, watchdog=30.0)
    notifier.ready("two\nlines  and\ta tab")
    assert listening.recv(4096) == b"READY=1\nSTATUS=two lines and a tab"
    notifier.feed("29.9 frames/s")
    assert listening.recv(4096) == b"WATCHDOG=1\nSTATUS=29.9 frames/s"
    notifier.status("hangs")
    assert listening.recv(4096) == b"STATUS=hangs"
    before = time.monotonic_ns() // 1000
    notifier.reloading()
    first, second = listening.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    notifier.stopping()
    assert listening.recv(4096) == b"STOPPING=1\nSTATUS=stopping"


def test_nothing_is_sent_after_stopping(manager: tuple[socket.socket, str]) -> None:
    """A reload in another thread may end while the service stops: READY=1 would call it back."""
    listening, address = manager
    notifier = Notifier(address)
    notifier.stopping()
    notifier.ready("config reloaded")
    Notifier(address).status("the end")
    assert listening.recv(4096) == b"STOPPING=1\nSTATUS=stopping"
    assert listening.recv(4096) == b"STATUS=the end"


def test_without_a_watchdog_only_the_status_is_sent(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    Notifier(address).feed("well")
    assert listening.recv(4096) == b"STATUS=well"


@pytest.mark.parametrize(
    ("given", "watchdog"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "²"}, None),
        ({}, None),
    ],
)
def test_the_environment_is_read_and_not_inherited_by_children(given: dict[str, str], watchdog: float | None) -> None:
    environment = {"NOTIFY_SOCKET": "@x", "HOME": "/", **given}
    assert Notifier.from_environment(environment).watchdog == watchdog
    assert environment == {"HOME": "/"}
    assert Notifier.from_environment(dict(given)).watchdog is None  # nobody there to be fed


def test_without_a_manager_nothing_is_sent() -> None:
    notifier = Notifier.from_environment({})
    notifier.ready("x")
    notifier.reloading()
    notifier.stopping()


def test_a_failure_to_notify_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(str(tmp_path / "gone"))
    notifier.ready("x")
    notifier.feed("x")
    assert caplog.messages == ["cannot notify the service manager (READY=1): No such file or directory"]


def test_an_address_that_is_too_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Notifier("/" + "x" * 200).ready("x")
    assert caplog.messages == ["cannot notify the service manager (READY=1): AF_UNIX path too long"]
