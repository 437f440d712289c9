"""Periodic actions, with a period that can change, until stopped."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from edgemeta.daemon.runtime.periodic import Periodic


class Counted:
    def __init__(self) -> None:
        self.calls: list[float] = []
        self.changed = threading.Condition()

    def __call__(self) -> None:
        with self.changed:
            self.calls.append(time.monotonic())
            self.changed.notify_all()

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.calls) >= count, 60)


@pytest.fixture
def start() -> Iterator[Callable[..., Periodic]]:
    started: list[Periodic] = []

    def make(period: float, action: Callable[[], None], on_fatal: Callable[[BaseException], None] = print) -> Periodic:
        started.append(Periodic("test", period, action, on_fatal))
        started[-1].start()
        return started[-1]

    yield make
    for periodic in started:
        periodic.stop(5)


def test_it_keeps_its_period(start: Callable[..., Periodic]) -> None:
    counted = Counted()
    begun = time.monotonic()
    start(0.05, counted)
    counted.wait(4)
    assert counted.calls[3] - begun >= 0.2


def test_a_shorter_period_ends_a_long_wait(start: Callable[..., Periodic]) -> None:
    counted = Counted()
    periodic = start(3600, counted)
    periodic.set_period(3600)
    periodic.set_period(0.01)
    counted.wait(3)
    periodic.set_period(3600)


def test_stopping_ends_a_long_wait_without_a_last_call(start: Callable[..., Periodic]) -> None:
    counted = Counted()
    periodic = start(3600, counted)
    begun = time.monotonic()
    periodic.stop(60)
    assert time.monotonic() - begun < 30
    assert counted.calls == []


def test_an_error_of_the_action_is_reported(start: Callable[..., Periodic]) -> None:
    heard: list[BaseException] = []
    came = threading.Event()

    def on_fatal(error: BaseException) -> None:
        heard.append(error)
        came.set()

    start(0.01, lambda: [][0], on_fatal)
    assert came.wait(60)
    assert isinstance(heard[0], IndexError)
