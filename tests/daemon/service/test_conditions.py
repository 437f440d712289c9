"""What is told about readiness, problems and load: only what lasts, and when it changes."""

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from edgemeta.daemon.capture.camera import CameraStatus
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.metrics.load import LoadMonitor, Progress, Second
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.service import conditions as module
from edgemeta.daemon.service.conditions import Conditions
from rig.waiting import wait_until

GOOD = CameraStatus(CameraState.RUNNING, 0, None, 0)
BAD = CameraStatus(CameraState.FAILED, 0, "away", 1)
STARVED, FINE = Second(0.5, None, 0.0), Second(0.0, None, 0.0)


class Observed:
    """Conditions of one camera, looked at every 10 ms; a problem lasts from 0.5 s on, or as a test says."""

    def __init__(self) -> None:
        self.status = GOOD
        self.reported: list[str | None] = []
        self.errors: list[BaseException] = []
        self.load = LoadMonitor(lambda: Progress(0, 0), self.errors.append)
        self.conditions = Conditions(
            *(["front"], Clock(), self.load, lambda: {"front": self.status}, lambda: self.status.is_ready),
            *(lambda: None, self.reported.append, self.errors.append),
        )


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Observed]:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(module, "LASTS", getattr(request, "param", 0.5))
    made = Observed()
    made.conditions.start()
    yield made
    made.conditions.stop(60)
    assert made.errors == []


def during(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether something is true all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not condition():
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize("observed", [60.0], indirect=True)
def test_a_camera_that_drops_for_moments_stays_ready_and_has_no_problem(observed: Observed) -> None:
    wait_until(lambda: observed.conditions.ready, "readiness")
    for _ in range(3):
        observed.status = BAD
        assert during(0.1, lambda: observed.conditions.ready)
        observed.status = GOOD
        assert during(0.1, lambda: observed.conditions.ready)
    assert not observed.conditions.has_problem("front")
    assert observed.reported == []


def test_a_failure_that_lasts_is_told_and_so_is_its_end(observed: Observed) -> None:
    wait_until(lambda: observed.conditions.ready, "readiness")
    observed.status = BAD
    wait_until(lambda: observed.reported == ["front"], "the problem")
    assert observed.conditions.has_problem("front")
    wait_until(lambda: not observed.conditions.ready, "the end of readiness")
    observed.status = GOOD
    wait_until(lambda: observed.conditions.ready, "readiness")
    wait_until(lambda: observed.reported == ["front", "front"], "the end of the problem")
    assert not observed.conditions.has_problem("front")


def test_overload_is_logged_and_told_once_per_change(observed: Observed, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "edgemeta"):
        for _ in range(8):
            observed.load.add(STARVED)
            time.sleep(0.02)
        wait_until(lambda: observed.reported == [None], "the overload")
        assert observed.conditions.overloaded is not None
        assert observed.conditions.overloaded.startswith("threads are woken ")
        for _ in range(10):
            observed.load.add(FINE)
        wait_until(lambda: observed.reported == [None, None], "its end")
    assert observed.conditions.overloaded is None
    first, last = caplog.messages
    assert first.startswith("overloaded: threads are woken ")
    assert last == "not overloaded any more"
