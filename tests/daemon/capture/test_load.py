"""When cameras may be opened, by the load of the service."""

from types import SimpleNamespace

import pytest

from edgemeta.daemon.capture import load
from edgemeta.daemon.capture.load import APART, LOOK_AGAIN, Openings


def test_cameras_are_opened_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=10.0, monotonic=lambda: clock.at)
    monkeypatch.setattr(load, "time", clock)
    openings = Openings(lambda: False)
    assert openings.opens_in(False) == 0
    assert openings.opens_in(False) == pytest.approx(APART)
    assert openings.opens_in(True) == pytest.approx(APART)
    clock.at += APART
    assert openings.opens_in(True) == 0


def test_no_new_camera_is_opened_while_the_service_is_starved() -> None:
    starved = [True]
    openings = Openings(lambda: starved[0])
    assert openings.opens_in(False) == LOOK_AGAIN
    assert openings.opens_in(True) == 0
    starved[0] = False
    assert openings.opens_in(False) <= APART
