"""Packets that wait for their acknowledgement: in turn, out of turn, never."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.mqtt import in_flight
from edgemeta.daemon.mqtt.in_flight import InFlight


@pytest.fixture
def clock(monkeypatch: Any) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(in_flight, "AWAKE", SimpleNamespace(now=lambda: now[0]))
    return now


def test_nothing_in_flight_is_never_overdue(clock: list[float]) -> None:
    waiting = InFlight[str]()
    clock[0] += 1000
    assert (len(waiting), waiting.overdue) == (0, 0.0)
    waiting.add(1, "one")
    assert waiting.take(1) == "one"
    clock[0] += 1000
    assert waiting.overdue == 0.0


def test_acknowledgements_in_order_restart_the_time(clock: list[float]) -> None:
    waiting = InFlight[str]()
    for identifier in (1, 2, 3):
        waiting.add(identifier, str(identifier))
    for identifier in (1, 2):
        clock[0] += 6
        assert waiting.overdue == 6.0
        waiting.take(identifier)
        assert waiting.overdue == 0.0


def test_acknowledgements_of_later_packets_do_not_excuse_the_oldest(clock: list[float]) -> None:
    waiting = InFlight[str]()
    for identifier in (1, 2, 3):
        waiting.add(identifier, str(identifier))
    clock[0] += 4
    assert waiting.take(3) == "3"
    waiting.add(4, "4")
    clock[0] += 4
    assert waiting.overdue == 8.0


def test_an_acknowledgement_of_nothing_changes_nothing(clock: list[float]) -> None:
    waiting = InFlight[str]()
    waiting.add(7, "seven")
    clock[0] += 5
    assert waiting.take(8) is None
    assert (len(waiting), waiting.overdue) == (1, 5.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.floats(0, 20)), max_size=60))
def test_overdue_is_the_time_since_all_earlier_packets_were_acknowledged(steps: list[tuple[bool, int, float]]) -> None:
    """Against the definition, computed anew from the whole history: max(sent, last earlier acknowledgement)."""
    waiting = InFlight[int]()
    sent: dict[int, float] = {}
    heads: dict[int, float] = {}
    now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_flight, "AWAKE", SimpleNamespace(now=lambda: now))
        for sends, identifier, seconds in steps:
            now += seconds
            if sends and identifier not in sent:
                waiting.add(identifier, identifier)
                sent[identifier] = now
            elif not sends:
                assert waiting.take(identifier) == (identifier if sent.pop(identifier, None) is not None else None)
                heads.pop(identifier, None)
            oldest = next(iter(sent), None)
            if oldest is not None:
                heads.setdefault(oldest, now)
            assert waiting.overdue == (0.0 if oldest is None else now - heads[oldest])
