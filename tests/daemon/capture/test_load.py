"""When cameras may be opened, by the load of the service."""

from types import SimpleNamespace

import pytest

from edgemeta.daemon.capture import load
from edgemeta.daemon.capture.load import APART, AT_A_TIME, LOOK_AGAIN, Openings


def test_cameras_are_opened_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=10.0, monotonic=lambda: clock.at)
    monkeypatch.setattr(load, "time", clock)
    openings = Openings(lambda: False, lambda: False)
    assert openings.opens_in("a", False) == 0
    assert openings.opens_in("b", False) == pytest.approx(APART)
    assert openings.opens_in("b", True) == pytest.approx(APART)
    clock.at += APART
    assert openings.opens_in("b", True) == 0


def test_few_new_cameras_are_opened_at_a_time_while_the_service_is_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=10.0, monotonic=lambda: clock.at)
    monkeypatch.setattr(load, "time", clock)
    starved = [True]
    openings = Openings(lambda: starved[0], lambda: False)

    def opens(camera: str, has_run: bool = False) -> bool:
        clock.at += APART
        return openings.opens_in(camera, has_run) == 0

    names = [f"camera {number}" for number in range(AT_A_TIME + 1)]
    assert [name for name in names if opens(name)] == names[:-1]
    assert opens("one that has run", has_run=True)
    openings.opened("one that has run")
    assert not opens(names[-1])
    openings.opened(names[0])
    assert opens(names[-1])
    assert not opens("another")
    starved[0] = False
    assert opens("another")


def test_no_new_camera_is_opened_while_the_service_is_overloaded() -> None:
    full = [True]
    openings = Openings(lambda: True, lambda: full[0])
    assert openings.opens_in("a", False) == LOOK_AGAIN
    assert openings.opens_in("a", True) == 0
    full[0] = False
    assert openings.opens_in("b", False) <= APART
