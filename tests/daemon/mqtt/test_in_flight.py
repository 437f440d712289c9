"""Packets that wait for their acknowledgement: in turn, out of turn, never."""

import heapq
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.mqtt import in_flight
from edgemeta.daemon.mqtt.in_flight import FIRST, InFlight, Window
from edgemeta.daemon.mqtt.limits import WINDOW
from edgemeta.daemon.runtime.clock import NS


class Line:
    """A line with a clock of its own: one message every `every` seconds, each on its way for `delay` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every: float, delay: float) -> None:
        self.every, self.delay, self.now, self.free_at = every, delay, 1000.0, 0.0
        self.window = Window()
        self.flying: list[tuple[float, float]] = []
        self.took: list[float] = []
        monkeypatch.setattr(time, "monotonic_ns", lambda: int(self.now * NS))

    def run(self, seconds: float) -> None:
        """Send whenever the window has room."""
        end = self.now + seconds
        while self.now < end:
            while len(self.flying) < self.window.size:
                self.free_at = max(self.free_at, self.now) + self.every
                heapq.heappush(self.flying, (self.free_at + self.delay, self.now))
            answered, sent = heapq.heappop(self.flying)
            self.now = answered
            self.took.append(self.now - sent)
            self.window.answered(int(sent * NS), len(self.flying) + 1)


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


def test_on_a_slow_line_what_is_in_flight_takes_little_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch, every=0.1, delay=0.1)
    line.run(60)
    settled = line.took[100:]
    assert max(settled) < 2.0
    assert line.window.size >= 5, "the line stays busy"
    assert len(line.took) > 550


@pytest.mark.parametrize("delay", [0.001, 0.05, 0.35, 2.0, 4.0])
def test_a_fast_line_gets_the_whole_window_however_late_its_answers_are(
    monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    line = Line(monkeypatch, every=0.0001, delay=delay)
    assert line.window.size == FIRST
    line.run(20 * delay)
    assert line.window.size == WINDOW
    assert line.window.size_for_replayed == 75


def test_a_line_that_gets_slower_and_faster_again(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch, every=0.001, delay=0.05)
    line.run(5)
    assert line.window.size == WINDOW
    line.every = 0.2
    line.run(60)
    assert line.window.size <= 10
    line.every = 0.001
    line.run(5)
    assert line.window.size == WINDOW


def test_after_a_stall_the_window_is_soon_as_wide_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch, every=0.0001, delay=0.05)
    line.run(5)
    line.now += 8.0
    line.run(0.3)
    assert line.window.size < WINDOW
    line.run(1.0)
    assert line.window.size == WINDOW


def test_the_brokers_limit_is_kept_and_one_message_is_always_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch, every=2.0, delay=0.1)
    line.window.limit = 3
    assert (line.window.size, line.window.size_for_replayed) == (3, 3)
    line.run(600)
    assert line.window.size in (1, 2)
    assert line.window.size_for_replayed == line.window.size
