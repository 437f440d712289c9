"""How many messages may be in flight, by how fast the line acknowledges them."""

import heapq
import time

import pytest

from edgemeta.daemon.mqtt.limits import WINDOW
from edgemeta.daemon.mqtt.window import FIRST, Window
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
