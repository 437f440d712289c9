"""An outbox whose writer is polled by the test, and helpers of these tests."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.store import Store
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.runtime.clock import Clock
from rig.disk import SmallDisk

BOOT = "b" * 32


def message(value: int, topic: str = "t/front/frame", size: int = 0) -> OutgoingMessage:
    return OutgoingMessage(
        topic, str(value).encode().rjust(size), 1, retain=False, kept=True, made_ns=time.monotonic_ns()
    )


def value(delivery: Delivery) -> int:
    return int(delivery.message.payload)


class KeptOutbox(Outbox):
    """An outbox with its writer, whose thread does not run: a test calls `poll`."""

    writer: OutboxWriter

    @property
    def store(self) -> Store | None:
        return self.writer._store

    def poll(self) -> None:
        """Poll the writer, for which two seconds have passed: it writes what waits and removes what was answered."""
        self.writer._removed_ns = self._written_ns = 0
        self.writer.poll()


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
        outbox.writer = OutboxWriter(outbox, config, self.path, boot, Clock(), lambda error: None)
        outbox.writer.open()
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
    deadline = time.monotonic() + 60
    while True:
        outbox.poll()
        delivery = outbox.next_live() or outbox.next_replayed()
        if delivery is not None:
            seen.append(value(delivery))
            outbox.settle(delivery)
        elif not outbox.has_replayed and outbox.wanted() is None:
            return seen
        assert time.monotonic() < deadline


def wait_until_stored(outbox: KeptOutbox, delivery: Delivery) -> None:
    outbox._patience.ns = outbox._written_ns = 0
    deadline = time.monotonic() + 60
    while delivery.row is None:
        outbox.poll()
        assert time.monotonic() < deadline


SIZE = 700
"""Bytes of a message of these tests: about those of a frame message."""


@pytest.fixture
def on_disk(disk: SmallDisk, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "disk" / "outbox.sqlite3")
    yield bench
    for outbox in list(bench.open):
        bench.kill(outbox)


def offer(outbox: KeptOutbox, first: int, count: int) -> None:
    for number in range(first, first + count):
        outbox.offer(message(number, size=SIZE))


def retry(outbox: KeptOutbox) -> None:
    """Let the disk be tried at once, as it is after a while."""
    outbox.writer._retry_at = 0.0
    outbox.poll()


def stored(bench: Bench) -> list[int]:
    """What is in the file now, seen by another connection once it is closed."""
    assert bench.path is not None
    with closing(sqlite3.connect(bench.path)) as database:
        return [int(payload) for (payload,) in database.execute("SELECT payload FROM messages ORDER BY number")]
