"""Any order of whatever can happen to an outbox."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from edgemeta.daemon.outbox.parcel import Parcel

from .conftest import Bench, KeptOutbox, drain, message, value


class Story(RuleBasedStateMachine):
    """Any order of offers, connections, losses, answers, kills and full disks: nothing accepted is lost, nothing late
    overtakes, and nothing settled comes again but after a kill."""

    factory: Callable[[], Path]

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(type(self).factory() / "o")
        self.number = 0
        self.boots = 0
        self.in_flight: list[Parcel] = []
        self.settled: set[int] = set()
        self.owed: set[int] = set()
        self.outbox: KeptOutbox

    @initialize()
    def start(self) -> None:
        self.boots += 1
        self.outbox = self.bench.make(f"{self.boots:032d}")
        self.connected = False
        self.last_late = -1

    @rule(count=st.integers(1, 5))
    def offer(self, count: int) -> None:
        for _ in range(count):
            self.outbox.offer(message(self.number))
            self.owed.add(self.number)
            self.number += 1

    @rule()
    def connect(self) -> None:
        if not self.connected:
            self.outbox.begin()
            self.connected, self.last_late = True, -1

    @rule()
    def lose(self) -> None:
        if self.connected:
            self.outbox.end()
            self.connected = False
            self.in_flight.clear()

    @rule()
    def tick(self) -> None:
        self.outbox.tick()

    @rule()
    def hurry(self) -> None:
        """As if a broker had been silent for long: everything is written."""
        if self.outbox.store is not None:
            self.outbox.keeper._write(self.outbox.store, everything=True)

    @rule(late=st.booleans())
    def send(self, late: bool) -> None:
        if not self.connected:
            return
        parcel = self.outbox.next_late() if late else self.outbox.next_live()
        if parcel is None:
            return
        assert value(parcel) not in {value(one) for one in self.in_flight}
        assert value(parcel) in self.owed
        if late:
            assert value(parcel) > self.last_late
            self.last_late = value(parcel)
        self.in_flight.append(parcel)

    @rule(index=st.integers(0, 100))
    def answer(self, index: int) -> None:
        if self.in_flight:
            parcel = self.in_flight.pop(index % len(self.in_flight))
            self.outbox.settle(parcel)
            self.owed.discard(value(parcel))

    @rule()
    def kill(self) -> None:
        """What was neither written nor answered goes; what was answered and not yet removed may come again."""
        self.bench.kill(self.outbox)
        self.in_flight.clear()
        self.start()
        self.outbox.begin()
        kept = self.all_there_is()
        lost = self.owed - set(kept)
        assert not lost or min(lost) > max((number for number in kept if number in self.owed), default=-1)
        self.outbox.end()
        self.owed = set(kept)

    def all_there_is(self) -> list[int]:
        assert self.outbox.store is not None
        loaded, _ = self.outbox.store.load(0, 10**9, 10**9)
        return [value(parcel) for parcel in loaded]

    @invariant()
    def the_count_is_right(self) -> None:
        if hasattr(self, "outbox"):
            assert self.outbox.stats.waiting == len(self.owed)

    def teardown(self) -> None:
        if not hasattr(self, "outbox"):
            return
        self.outbox.end()
        self.outbox.begin()
        assert drain(self.outbox) == sorted(self.owed)
        assert self.outbox.stats.waiting == 0
        self.bench.kill(self.outbox)


def test_any_story_ends_well(tmp_path_factory: pytest.TempPathFactory) -> None:
    Story.factory = lambda: tmp_path_factory.mktemp("story")
    run_state_machine_as_test(Story, settings=settings(max_examples=40, stateful_step_count=40, deadline=None))
