"""A disk that is full, away or damaged, and the thread that writes to it."""

import errno
import logging
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.store import Store
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.runtime.clock import Clock
from rig.waiting import wait_until
from tests.daemon.mqtt.outbox.conftest import BOOT, Bench, drain, message, value


def test_on_a_full_disk_the_newest_messages_stay_in_memory_and_it_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = bench.make(max_memory_mb=1)
    outbox.offer(message(0))
    outbox.poll()

    def no_room(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full, caplog.at_level(logging.WARNING):
        full.setattr(os, "posix_fallocate", no_room)
        for number in range(1, 21):
            outbox.offer(message(number, size=400_000))
            outbox.poll()
        stats = outbox.stats
        assert stats.place == "memory"
        assert stats.reason == f"outbox file {bench.path} cannot grow: No space left on device"
        assert caplog.text.count("messages are kept in memory, the newest 1 MB") == 1
        assert stats.dropped == 18
        outbox.begin()
        assert drain(outbox) == [0, 19, 20]
    outbox.writer._retry_at = 0.0  # the disk is asked again
    outbox.poll()
    assert (outbox.stats.place, outbox.stats.reason, outbox.stats.waiting) == ("disk", None, 0)


def test_without_a_disk_it_runs_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Path("/proc/edgemeta/outbox.sqlite3"))
    with caplog.at_level(logging.WARNING):
        outbox = bench.make()
        outbox.offer(message(1))
        outbox.poll()
        assert outbox.stats.reason == "outbox folder /proc/edgemeta cannot be created: No such file or directory"
        outbox.begin()
        outbox.offer(message(2))
        assert drain(outbox) == [2, 1]
        outbox.offer(message(3))
        outbox.writer.flush()
    assert "1 messages in memory are lost: outbox folder /proc/edgemeta" in caplog.text


def test_a_disk_that_hangs_is_reported_until_it_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.disk_state.ANSWERS_WITHIN", 0.1)
    outbox = bench.make()
    answers, asked, add = threading.Event(), threading.Event(), Store.add

    def hang(*arguments: Any, **keys: Any) -> list[int]:
        asked.set()
        assert answers.wait(60)
        return add(*arguments, **keys)

    monkeypatch.setattr(Store, "add", hang)
    outbox.writer._thread.start()  # the file is open already
    try:
        outbox.offer(message(1))
        outbox.changed.set()
        assert asked.wait(60)
        wait_until(lambda: outbox.stats.place == "memory", "the outbox to say that its disk hangs")
        assert outbox.stats.reason == "the disk does not respond"
        answers.set()
        wait_until(lambda: outbox.stats.place == "disk", "the disk")
        assert outbox.stats.reason is None
    finally:
        answers.set()
        outbox.writer.close(60)


def test_size_0_is_memory_only() -> None:
    outbox = Bench(None).make(max_disk_mb=0)
    outbox.offer(message(1))
    outbox.poll()
    assert outbox.stats.place == "memory"
    assert outbox.stats.reason == "configured to be in memory only"
    outbox.begin()
    assert drain(outbox) == [1]


def test_a_file_damaged_under_way_is_replaced_and_read(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    outbox = bench.make()
    for number in range(2000):
        outbox.offer(message(number, size=700))
    outbox.poll()
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


def test_a_ledger_with_too_small_numbers_does_no_harm(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(number))
    outbox.poll()
    bench.kill(outbox)
    assert bench.path is not None
    with closing(sqlite3.connect(bench.path)) as database:
        database.execute("UPDATE ledger SET count = 1, bytes = 1")
        database.commit()
    outbox = bench.make("c" * 32)
    outbox.begin()
    outbox.poll()
    for number in range(5):
        delivery = outbox.next_replayed()
        assert delivery is not None
        assert value(delivery) == number
        outbox.settle(delivery)
        assert outbox.stats.waiting == 0
    outbox.poll()
    assert (outbox.stats.waiting, outbox.stats.bytes) == (0, 0)


def test_a_thread_writes_without_being_asked(tmp_path: Path) -> None:
    crashes: list[BaseException] = []
    path = tmp_path / "o"
    outbox = Outbox(OutboxConfig(), lambda topic, number: None)
    writer = OutboxWriter(outbox, OutboxConfig(), path, BOOT, Clock(), crashes.append)
    writer.start()
    outbox.offer(message(1))
    wait_until(lambda: not outbox.in_memory_only, "a write")
    outbox.offer(message(2))
    writer.close(10)
    assert crashes == []
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT payload FROM messages ORDER BY number").fetchall() == [(b"1",), (b"2",)]


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()


FOREIGN = {
    "database": foreign_database,
    "directory": Path.mkdir,
    "text": lambda path: path.write_text("not ours\n"),
    "fifo": os.mkfifo,
}


@pytest.mark.parametrize("log_left", [False, True])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_program_in_its_place_is_left_alone_and_reported_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, kind: str, log_left: bool
) -> None:
    """Messages that are in the removed file and in memory are sent; the closed file is never used."""
    path = bench.path
    assert path is not None
    outbox = bench.make()
    outbox.offer(message(0))
    outbox.poll()
    for file in path.parent.glob(path.name if log_left else f"{path.name}*"):
        file.unlink()
    FOREIGN[kind](path)
    before = path.read_bytes() if path.is_file() else b""
    with caplog.at_level(logging.WARNING):
        for number in range(1, 4):
            outbox.offer(message(number))
            outbox.writer._gone_checked_ns = 0
            outbox.writer._retry_at = 0.0
            outbox.poll()
        outbox.begin()
        assert drain(outbox) == [0, 1, 2, 3]
        outbox.writer._retry_at = 0.0
        outbox.poll()
        outbox.offer(message(4))
        outbox.poll()
        assert drain(outbox) == [4]
    assert outbox.stats.place == "memory"
    assert len([record for record in caplog.records if "messages are kept in memory" in record.message]) == 1
    assert (path.read_bytes() if path.is_file() else b"") == before
    (path.rmdir if path.is_dir() else path.unlink)()
    outbox.offer(message(5))
    for _ in range(2):  # a new file, then what is in memory
        outbox.writer._retry_at = outbox.writer._gone_checked_ns = 0
        outbox.poll()
    assert (outbox.stats.place, path.is_file()) == ("disk", True)
    outbox.begin()
    assert drain(outbox) == [5]


def test_a_folder_that_becomes_a_file_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    bench = Bench(folder / "outbox.sqlite3")
    outbox = bench.make()
    outbox.offer(message(0))
    outbox.poll()
    folder.rename(tmp_path / "moved")
    folder.write_text("not a folder")
    outbox.writer._gone_checked_ns = 0
    outbox.offer(message(1))
    outbox.poll()
    assert outbox.stats.place == "memory"
    outbox.begin()
    assert drain(outbox) == [0, 1]
    bench.kill(outbox)


def test_its_files_are_private_whatever_the_umask_also_those_of_an_older_version(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bench = Bench(tmp_path / "state" / "edgemeta" / "outbox.sqlite3")
        bench.kill(bench.make())
        assert bench.path is not None
        bench.path.chmod(0o644)
        outbox = bench.make()
        outbox.offer(message(0))
        outbox.poll()
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").rglob("*")}
        bench.kill(outbox)
    finally:
        os.umask(before)
    assert modes == {"edgemeta": 0o700, "outbox.sqlite3": 0o600, "outbox.sqlite3-wal": 0o600}


def test_a_stop_while_the_disk_hangs_says_nothing_of_no_messages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = bench.make()
    answers = threading.Event()
    monkeypatch.setattr(outbox.writer, "poll", lambda: answers.wait(60))
    outbox.writer._thread.start()
    outbox.writer.close(0.05)
    assert caplog.text == ""
    outbox.offer(message(1))
    outbox.writer.close(0.05)
    assert caplog.messages == ["outbox: the disk does not respond, 1 messages may be lost"]
    answers.set()
    outbox.writer.close(60)


def test_a_slow_disk_is_a_state_and_said_once_per_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.disk_state.SLOW_AFTER", 0.05)
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.disk_state.SLOW_FOR", 0.5)
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.queue.OUTAGE_BATCH_NS", 0)
    outbox = bench.make()
    add = Store.add

    def add_slowly(*arguments: Any, **keys: Any) -> list[int]:
        time.sleep(0.1)
        return add(*arguments, **keys)

    with monkeypatch.context() as slow, caplog.at_level(logging.INFO):
        slow.setattr(Store, "add", add_slowly)
        outbox.writer._thread.start()
        for number in range(3):
            outbox.offer(message(number))
            wait_until(lambda: outbox.in_memory_only == 0, "the message to be written")
        wait_until(lambda: outbox.stats.place == "memory", "the outbox to say that its disk is slow")
        assert outbox.stats.reason == "the disk is slow: it has needed more than 0.05 s to write"
        wait_until(lambda: "no longer slow" in caplog.text, "the outbox to say that it is fast again")
        assert outbox.stats.place == "disk"
    outbox.writer.close(60)
    assert [text for text in caplog.messages if "slow" in text] == [
        "outbox: the disk is slow; messages are sent from memory, the newest 8 MB",
        "outbox: the disk is no longer slow",
    ]


def test_a_stop_writes_at_once_when_it_hurries(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    outbox.offer(message(1))
    outbox.poll()
    assert outbox.in_memory_only == 1
    outbox.writer.hurry()
    outbox.poll()
    assert outbox.in_memory_only == 0


def test_a_stop_writes_before_it_removes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk there may be time for one of them only; what is not removed is sent twice, not lost."""
    outbox = bench.make()
    outbox.offer(message(1))
    outbox.poll()
    outbox.begin()
    sent = outbox.next_replayed()
    assert sent is not None
    outbox.settle(sent)
    outbox.offer(message(2))
    remove, in_memory = Store.remove, []

    def note(store: Store, first: int, last: int) -> None:
        in_memory.append(outbox.in_memory_only)
        remove(store, first, last)

    monkeypatch.setattr(Store, "remove", note)
    outbox.writer.flush()
    assert in_memory == [0]


def test_messages_are_read_for_the_link_between_two_writes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk a round of writing takes long, and the link has soon sent what was read before."""
    outbox = bench.make()
    for number in range(1200):
        outbox.offer(message(number))
    outbox.poll()
    bench.kill(outbox)
    outbox = bench.make()
    outbox.begin()
    for number in range(3):
        outbox.offer(message(number, size=150_000))
    add, taken = Store.add, []

    def add_while_the_link_sends(*arguments: Any, **keys: Any) -> list[int]:
        while (delivery := outbox.next_replayed()) is not None:
            taken.append(value(delivery))
        return add(*arguments, **keys)

    monkeypatch.setattr(Store, "add", add_while_the_link_sends)
    outbox.writer.hurry()
    outbox.writer.poll()
    assert taken == list(range(1200))
