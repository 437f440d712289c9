"""Reports to the service manager: the status line, and the watchdog fed only while no thread hangs."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgemeta.daemon.metrics.health import Health
from edgemeta.daemon.runtime.sd_notify import Notifier
from edgemeta.daemon.service.watchdog import Watchdog

WELL = Health(frames=0, cameras={"front": "running"}, broker="localhost:1883 connected", hanging_threads=())


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


class Watched:
    """A watchdog with a health that the test sets, checked every 10 ms."""

    def __init__(self, manager: socket.socket) -> None:
        self.health = WELL
        self.faults: list[BaseException] = []
        self.manager = manager
        notifier = Notifier(manager.getsockname(), watchdog=0.02)
        self.watchdog = Watchdog(notifier, lambda: self.health, self.faults.append)

    def hear(self, *parts: str) -> str:
        """Return the first message from now on that has all these parts."""
        while True:
            message = self.manager.recv(65536).decode()
            if all(part in message for part in parts):
                return message


@pytest.fixture
def watched(manager: socket.socket) -> Iterator[Watched]:
    made = Watched(manager)
    made.watchdog.start()
    yield made
    made.watchdog.stop()
    assert made.faults == []


def test_ready_then_fed_then_stopping(watched: Watched) -> None:
    started = "starting; camera front running; broker localhost:1883 connected"
    assert watched.manager.recv(4096).decode() == f"READY=1\nSTATUS={started}"
    fed = watched.manager.recv(4096).decode()
    assert fed == "WATCHDOG=1\nSTATUS=0.0 frames/s; camera front running; broker localhost:1883 connected"
    watched.watchdog.stop()
    assert watched.hear("STOPPING=1") == "STOPPING=1\nSTATUS=stopping"
    watched.manager.settimeout(0.1)
    with pytest.raises(TimeoutError):
        watched.manager.recv(4096)
    watched.manager.settimeout(60)


def test_a_hang_starves_the_watchdog_until_it_is_over(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.hear("WATCHDOG=1")
    hang = "worker hangs: no frame classified within 10 s, 3 s late"
    watched.health = Health(7, {"front": "running"}, "b connected", (hang,))
    first = watched.hear(hang)
    for message in [first, *(watched.manager.recv(4096).decode() for _ in range(5))]:
        assert message.startswith(f"STATUS={hang}; "), message
    watched.health = WELL
    watched.hear("WATCHDOG=1")
    watched.hear("WATCHDOG=1")
    assert caplog.messages == [f"{hang}; the watchdog is not fed", "no thread hangs any more"]


def test_an_outage_is_no_hang(watched: Watched) -> None:
    reason = "failed: stream rtsp://cam gave no frame for 5 s"
    watched.health = Health(0, {"front": reason}, "localhost:1883 not connected", ())
    message = watched.hear(reason)
    assert message == f"WATCHDOG=1\nSTATUS=0.0 frames/s; camera front {reason}; broker localhost:1883 not connected"


def test_the_rate_is_that_of_the_last_check(watched: Watched) -> None:
    watched.health = Health(10**6, {}, "b", ())
    assert float(watched.hear("WATCHDOG=1\nSTATUS=").split("=")[2].split()[0]) >= 0
    rates = {watched.hear("frames/s").split("STATUS=")[1].split()[0] for _ in range(6)}
    assert "0.0" in rates


def test_a_reload_is_announced_and_its_outcome_stays_in_the_status(watched: Watched) -> None:
    watched.hear("WATCHDOG=1")
    watched.watchdog.change_started()
    assert watched.hear("RELOADING=1").startswith("RELOADING=1\nMONOTONIC_USEC=")
    watched.watchdog.change_finished("config reloaded: nothing changed")
    assert watched.hear("READY=1").endswith("; config reloaded: nothing changed")
    assert watched.hear("WATCHDOG=1").endswith("; config reloaded: nothing changed")


def test_a_refused_model_is_reported_first_and_starves_nothing(watched: Watched) -> None:
    watched.health = replace(WELL, refused="c.yaml:1: model: found nothing")
    message = watched.hear("refused")
    assert message.startswith(
        "WATCHDOG=1\nSTATUS=model refused, another one is in use: c.yaml:1: model: found nothing; "
    )
