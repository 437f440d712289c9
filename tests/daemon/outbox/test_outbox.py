"""The outbox as the link sees it: live and late, bounds, a disk that fails, a restart. Disk work goes tick by tick."""

import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from edgemeta.daemon.clock import NS, Clock
from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.outbox.keeper import Keeper
from edgemeta.daemon.outbox.outbox import LIVE, Outbox
from edgemeta.daemon.outbox.parcel import Outgoing, Parcel
from edgemeta.daemon.outbox.store import Store

BOOT = "b" * 32


def message(value: int, topic: str = "t/front/frame", size: int = 0) -> Outgoing:
    return Outgoing(topic, str(value).encode().rjust(size), 1, retain=False, kept=True)


def value(parcel: Parcel) -> int:
    return int(parcel.message.payload)


class KeptOutbox(Outbox):
    """An outbox with its keeper, whose thread does not run: a test says `tick`."""

    keeper: Keeper

    @property
    def store(self) -> Store | None:
        return self.keeper._store

    def tick(self) -> None:
        self.keeper.tick()


class Bench:
    """Makes outboxes on one file, so that a test knows what is on disk."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.open: list[KeptOutbox] = []

    def make(self, boot: str = BOOT, **keys: Any) -> KeptOutbox:
        def dropped(topic: str, number: int) -> None:
            self.dropped[topic] += number

        config = OutboxConfig(**keys)
        outbox = KeptOutbox(config, dropped)
        outbox.keeper = Keeper(outbox, config, self.path, boot, Clock(), lambda error: None)
        outbox.keeper.open()
        self.open.append(outbox)
        return outbox

    def kill(self, outbox: KeptOutbox) -> None:
        """Let go of the file as a killed process would: nothing more is written."""
        self.open.remove(outbox)
        if outbox.store is not None:
            outbox.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "outbox.sqlite3")
    yield bench
    for outbox in list(bench.open):
        bench.kill(outbox)


def drain(outbox: KeptOutbox) -> list[int]:
    """Send and settle everything there is, as a link would."""
    seen = []
    deadline = time.monotonic() + 20
    while True:
        outbox.tick()
        parcel = outbox.next_live() or outbox.next_late()
        if parcel is not None:
            seen.append(value(parcel))
            outbox.settle(parcel)
        elif not outbox.has_late_read and outbox.wanted() is None:
            return seen
        assert time.monotonic() < deadline


def test_while_the_broker_answers_nothing_touches_the_disk(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    assert bench.path is not None
    before = [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(bench.path.parent.iterdir())]
    for number in range(100):
        outbox.offer(message(number))
        parcel = outbox.next_live()
        assert parcel is not None
        assert (value(parcel), parcel.late) == (number, False)
        outbox.tick()
        outbox.settle(parcel)
    outbox.tick()
    assert [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(bench.path.parent.iterdir())] == before
    assert outbox.stats.waiting == 0


def test_what_waited_is_late_and_comes_in_order(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(number))
        outbox.tick()
    outbox.offer(message(5))  # in memory only
    assert outbox.stats.waiting == 6
    outbox.begin()
    outbox.offer(message(6))
    live = outbox.next_live()
    assert live is not None
    assert (value(live), live.late) == (6, False)
    assert outbox.next_live() is None
    outbox.tick()
    late = [outbox.next_late() for _ in range(7)]
    assert [value(parcel) for parcel in late if parcel] == [0, 1, 2, 3, 4, 5]
    assert all(parcel.late for parcel in late if parcel)
    assert late[6] is None


def test_what_was_not_answered_comes_again(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(3):
        outbox.offer(message(number))
    outbox.tick()
    outbox.begin()
    outbox.tick()
    outbox.offer(message(3))
    sent = [outbox.next_late(), outbox.next_late(), outbox.next_live()]
    assert sent[0] is not None
    outbox.settle(sent[0])
    outbox.end()
    outbox.begin()
    assert drain(outbox) == [1, 2, 3]
    assert outbox.stats.waiting == 0
    assert outbox.stats.replayed == 4


def test_a_broker_slow_to_answer_sends_messages_to_disk_but_not_twice(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    outbox.offer(message(1))
    parcel = outbox.next_live()
    assert parcel is not None
    wait_until_stored(outbox, parcel)
    outbox.offer(message(2))
    outbox.settle(parcel)
    outbox.tick()
    assert outbox.store is not None
    assert outbox.store.count == 0
    assert drain(outbox) == [2]


def wait_until_stored(outbox: KeptOutbox, parcel: Parcel) -> None:
    deadline = time.monotonic() + 10
    while parcel.row is None:
        outbox.tick()
        assert time.monotonic() < deadline


def test_a_killed_process_loses_only_what_was_neither_written_nor_answered(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(4):
        outbox.offer(message(number))
    outbox.tick()
    outbox.offer(message(4))
    bench.kill(outbox)
    outbox = bench.make("c" * 32)
    assert outbox.stats.waiting == 4
    outbox.offer(message(10))
    outbox.begin()
    assert drain(outbox) == [0, 1, 2, 3, 10]


def test_an_end_in_order_writes_everything(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    for number in range(4):
        outbox.offer(message(number))
    assert outbox.next_live() is not None
    outbox.keeper.finish()
    outbox = bench.make("c" * 32)
    outbox.begin()
    assert drain(outbox) == [0, 1, 2, 3]


def test_more_live_messages_than_a_slow_broker_takes_become_late(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    outbox.offer(message(0))
    first = outbox.next_live()
    for number in range(1, LIVE + 3):
        outbox.offer(message(number))
    outbox.offer(message(LIVE + 3))
    assert first is not None
    outbox.settle(first)
    assert drain(outbox) == [LIVE + 2, LIVE + 3, *range(1, LIVE + 2)]
    assert outbox.stats.waiting == 0


def test_the_oldest_are_dropped_first_and_counted(bench: Bench) -> None:
    outbox = bench.make(size=1)
    for number in range(30):
        outbox.offer(message(number, "t/front/frame" if number % 2 else "t/back/frame", size=100_000))
        outbox.tick()
    stats = outbox.stats
    assert stats.bytes <= 1_000_000
    assert stats.waiting == 9
    assert stats.dropped == 21
    assert bench.dropped == {"t/front/frame": 10, "t/back/frame": 11}
    outbox.begin()
    assert drain(outbox) == list(range(21, 30))


def test_messages_dropped_while_they_wait_in_the_replay_are_not_sent(bench: Bench) -> None:
    outbox = bench.make(size=1)
    for number in range(9):
        outbox.offer(message(number, size=100_000))
    outbox.tick()
    outbox.begin()
    outbox.tick()
    first = outbox.next_late()
    assert first is not None
    for number in range(9, 18):
        outbox.offer(message(number, size=100_000))
    sent = [outbox.next_live() for _ in range(9)]
    wait_until_stored(outbox, sent[-1])  # type: ignore[arg-type]
    assert outbox.stats.dropped == 8
    assert drain(outbox) == []
    for parcel in (first, *sent):
        assert parcel is not None
        outbox.settle(parcel)
    outbox.tick()
    assert outbox.stats.waiting == 0


def test_messages_too_old_are_dropped_and_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = bench.make(age=100.0)
    for number in range(3):
        outbox.offer(message(number))
    outbox.tick()
    outbox.keeper._aged_ns = 0
    real = time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + 99 * NS)
    outbox.keeper._aged_ns = 0
    outbox.tick()
    assert outbox.stats.expired == 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + 101 * NS)
    outbox.keeper._aged_ns = 0
    outbox.tick()
    assert (outbox.stats.expired, outbox.stats.waiting) == (3, 0)
    assert bench.dropped == {"t/front/frame": 3}


@pytest.mark.parametrize(("then", "now", "kept"), [(True, True, False), (True, False, True), (False, True, True)])
def test_age_over_a_restart_needs_a_clock_that_was_right_then_and_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, then: bool, now: bool, kept: bool
) -> None:
    monkeypatch.setattr("edgemeta.daemon.clock.kernel_says_synchronized", lambda: then)
    outbox = bench.make(age=100.0)
    outbox.offer(message(1))
    outbox.tick()
    bench.kill(outbox)
    monkeypatch.setattr("edgemeta.daemon.clock.kernel_says_synchronized", lambda: now)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 101 * NS)
    outbox = bench.make("c" * 32, age=100.0)
    outbox.tick()
    assert outbox.stats.waiting == int(kept)
    assert outbox.stats.expired == int(not kept)


def test_a_full_disk_makes_a_ring_in_memory_and_says_so(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    outbox = bench.make(memory=1)
    outbox.offer(message(0))
    outbox.tick()
    assert outbox.store is not None
    outbox.store._db.execute("PRAGMA max_page_count = 10")
    with caplog.at_level(logging.WARNING):
        for number in range(1, 21):
            outbox.offer(message(number, size=100_000))
            outbox.tick()
    stats = outbox.stats
    assert stats.place == "memory"
    assert stats.reason == f"outbox file {bench.path} cannot be used: database or disk is full"
    assert caplog.text.count("messages are kept in memory, the newest 1 MB") == 1
    assert stats.dropped == 11
    outbox.begin()
    assert drain(outbox) == list(range(12, 21))
    outbox.keeper._retry_at = 0.0  # the disk is asked again
    assert drain(outbox) == [0]
    assert (outbox.stats.place, outbox.stats.reason, outbox.stats.waiting) == ("disk", None, 0)


def test_without_a_disk_it_runs_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Path("/proc/edgemeta/outbox.sqlite3"))
    with caplog.at_level(logging.WARNING):
        outbox = bench.make()
        outbox.offer(message(1))
        outbox.tick()
        assert outbox.stats.reason == "outbox folder /proc/edgemeta cannot be made: No such file or directory"
        outbox.begin()
        outbox.offer(message(2))
        assert drain(outbox) == [2, 1]
        outbox.offer(message(3))
        outbox.keeper.finish()
    assert "1 messages are lost with this process: outbox folder /proc/edgemeta" in caplog.text


def test_size_0_is_memory_only() -> None:
    outbox = Bench(None).make(size=0)
    outbox.offer(message(1))
    outbox.tick()
    assert outbox.stats.place == "memory"
    assert outbox.stats.reason == "it is kept in memory only, as the config says"
    outbox.begin()
    assert drain(outbox) == [1]


def test_a_file_damaged_under_way_is_replaced_and_read(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    outbox = bench.make()
    for number in range(2000):
        outbox.offer(message(number, size=700))
    outbox.tick()
    assert outbox.store is not None
    outbox.store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert bench.path is not None
    with bench.path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    bench.kill(outbox)
    outbox = bench.make("c" * 32)
    outbox.begin()
    with caplog.at_level(logging.WARNING):
        seen = drain(outbox)
    assert len(set(seen)) > 1980
    assert (seen[0], seen[-1]) == (0, 1999)
    assert "is damaged: database disk image is malformed" in caplog.text
    assert outbox.stats.place == "disk"


def test_a_ledger_that_says_too_little_does_no_harm(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(number))
    outbox.tick()
    bench.kill(outbox)
    assert bench.path is not None
    with closing(sqlite3.connect(bench.path)) as database:
        database.execute("UPDATE ledger SET count = 1, bytes = 1")
        database.commit()
    outbox = bench.make("c" * 32)
    outbox.begin()
    outbox.tick()
    for number in range(5):
        parcel = outbox.next_late()
        assert parcel is not None
        assert value(parcel) == number
        outbox.settle(parcel)
        assert outbox.stats.waiting == 0
    outbox.tick()
    assert (outbox.stats.waiting, outbox.stats.bytes) == (0, 0)


def test_a_thread_writes_without_being_asked(tmp_path: Path) -> None:
    crashes: list[BaseException] = []
    path = tmp_path / "o"
    outbox = Outbox(OutboxConfig(), lambda topic, number: None)
    keeper = Keeper(outbox, OutboxConfig(), path, BOOT, Clock(), crashes.append)
    keeper.start()
    outbox.offer(message(1))
    deadline = time.monotonic() + 10
    while outbox.in_memory_only:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    outbox.offer(message(2))
    keeper.close(10)
    assert crashes == []
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT payload FROM messages ORDER BY number").fetchall() == [(b"1",), (b"2",)]


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
