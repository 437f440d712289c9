"""Random sequences of everything that can happen to an outbox."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from edgemeta.daemon.mqtt.outbox.delivery import Delivery
from tests.daemon.mqtt.outbox.conftest import Bench, KeptOutbox, drain, message, value


class OutboxMachine(RuleBasedStateMachine):
    """Any order of offers, connections, losses, answers, kills and full disks: nothing accepted is lost, nothing late
    overtakes, and nothing settled comes again but after a kill. At the end all is sent, be the disk full or not."""

    factory: Callable[[], Path]

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(type(self).factory() / "o")
        self.number = 0
        self.boots = 0
        self.in_flight: list[Delivery] = []
        self.settled: set[int] = set()
        self.owed: set[int] = set()
        self.outbox: KeptOutbox
        self.full = False
        self.allocate = os.posix_fallocate
        self.patch = patch.object(os, "posix_fallocate", self.get_blocks)
        self.patch.start()

    def get_blocks(self, descriptor: int, offset: int, size: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.allocate(descriptor, offset, size)

    @initialize()
    def start(self) -> None:
        self.boots += 1
        self.outbox = self.bench.make(f"{self.boots:032d}", max_memory_mb=64)
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
    def poll(self) -> None:
        self.outbox.poll()

    @rule(full=st.booleans())
    def fill_disk(self, full: bool) -> None:
        self.full = full

    @rule(count=st.integers(20, 40))
    def offer_much(self, count: int) -> None:
        """More than a file has spare room for, before long."""
        for _ in range(count):
            self.outbox.offer(message(self.number, size=2000))
            self.owed.add(self.number)
            self.number += 1

    @rule()
    def retry(self) -> None:
        """The disk that failed is tried again."""
        self.outbox.writer._retry_at = 0.0
        self.outbox.poll()

    @rule()
    def hurry(self) -> None:
        """As if a broker had been silent for long: everything is written."""
        if self.outbox.store is not None and self.outbox.stats.place == "disk" and not self.full:
            self.outbox.writer._add(self.outbox.store, everything=True)

    @rule(late=st.booleans())
    def send(self, late: bool) -> None:
        if not self.connected:
            return
        delivery = self.outbox.next_replayed() if late else self.outbox.next_live()
        if delivery is None:
            return
        assert value(delivery) not in {value(one) for one in self.in_flight}
        assert value(delivery) in self.owed
        if late:
            assert value(delivery) > self.last_late
            self.last_late = value(delivery)
        self.in_flight.append(delivery)

    @rule(index=st.integers(0, 100))
    def answer(self, index: int) -> None:
        if self.in_flight:
            delivery = self.in_flight.pop(index % len(self.in_flight))
            self.outbox.settle(delivery)
            self.owed.discard(value(delivery))

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
        return [value(delivery) for delivery in loaded]

    @invariant()
    def the_count_is_right(self) -> None:
        if hasattr(self, "outbox"):
            assert self.outbox.stats.waiting == len(self.owed)

    def teardown(self) -> None:
        if not hasattr(self, "outbox"):
            self.patch.stop()
            return
        self.outbox.end()
        self.outbox.begin()
        assert drain(self.outbox) == sorted(self.owed)
        assert self.outbox.stats.waiting == 0
        self.bench.kill(self.outbox)
        self.patch.stop()


def test_any_story_ends_well(tmp_path_factory: pytest.TempPathFactory) -> None:
    OutboxMachine.factory = lambda: tmp_path_factory.mktemp("outbox")
    run_state_machine_as_test(OutboxMachine, settings=settings(max_examples=40, stateful_step_count=40, deadline=None))
