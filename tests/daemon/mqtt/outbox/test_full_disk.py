"""An outbox on a real small disk that is full, also from the first start on."""

import errno
import logging
import os

import pytest

from edgemeta.daemon.mqtt.outbox.disk_state import OnDisk
from edgemeta.daemon.mqtt.outbox.files import LOG_BYTES
from edgemeta.daemon.mqtt.outbox.store import Store
from rig.disk import SmallDisk
from tests.daemon.mqtt.outbox.conftest import Bench, drain, message, offer, retry, stored


def test_messages_on_disk_are_sent_and_removed_while_the_disk_is_full(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 1000)
    outbox.poll()
    disk.fill()
    offer(outbox, 1000, 3000)  # more than the file has room for
    outbox.poll()
    assert outbox.stats.place == "memory"
    assert outbox.stats.waiting == 4000
    outbox.begin()
    assert drain(outbox) == list(range(4000))
    outbox.poll()
    assert outbox.store is not None
    assert outbox.store.count == 0
    on_disk.kill(outbox)
    assert stored(on_disk) == []


def test_deletions_make_room_for_more_inside_the_file(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 3000)
    outbox.poll()
    disk.fill()
    outbox.begin()
    assert drain(outbox) == list(range(3000))
    outbox.end()
    offer(outbox, 3000, 1000)
    outbox.poll()
    assert outbox.stats.place == "disk"
    on_disk.kill(outbox)
    assert stored(on_disk) == list(range(3000, 4000))


@pytest.mark.parametrize("killed", [True, False])
def test_after_a_restart_on_a_full_disk_messages_are_sent_once(disk: SmallDisk, on_disk: Bench, killed: bool) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 1000)
    outbox.poll()
    for boot in "cd":
        if killed:
            on_disk.kill(outbox)
        else:
            outbox.writer.flush()
        disk.fill()
        outbox = on_disk.make(boot * 32)
        if boot == "c":  # later there is room inside the file
            assert outbox.stats.place == "memory"
            assert outbox.stats.reason == f"outbox file {on_disk.path} cannot grow: No space left on device"
        outbox.begin()
        assert drain(outbox) == (list(range(1000)) if boot == "c" else [])
        outbox.end()
        outbox.poll()
        assert outbox.stats.waiting == 0


def test_a_stop_on_a_full_disk_writes_as_many_messages_as_fit_into_the_file(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 300)
    outbox.poll()
    disk.fill()
    outbox.begin()
    assert drain(outbox) == list(range(300))
    outbox.end()
    offer(outbox, 300, 5000)
    outbox.poll()
    assert outbox.stats.place == "memory"
    outbox.writer.flush()
    kept = stored(on_disk)
    assert len(kept) > 250
    assert kept == list(range(300, 300 + len(kept)))


def test_one_line_for_each_change_of_state(disk: SmallDisk, on_disk: Bench, caplog: pytest.LogCaptureFixture) -> None:
    outbox = on_disk.make()
    disk.fill()
    places = []
    with caplog.at_level(logging.INFO):
        for number in range(100):
            offer(outbox, number * 50, 50)
            retry(outbox)
            outbox.begin() if number % 2 else outbox.end()
            places.append(outbox.stats.place)
        assert places[-1] == "memory"
        assert places == sorted(places)  # never back on disk
        assert [record.message for record in caplog.records] == [
            f"outbox file {on_disk.path} cannot grow: No space left on device; "
            "messages are kept in memory, the newest 8 MB"
        ]
        disk.empty()
        retry(outbox)
        assert (outbox.stats.place, outbox.stats.reason) == ("disk", None)
        assert caplog.messages[1:] == [f"outbox: on disk again: {on_disk.path}"]


def test_it_is_tried_about_once_a_minute(disk: SmallDisk, on_disk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = on_disk.make()
    disk.fill()
    offer(outbox, 0, 5000)
    tries = []
    reserve = Store.reserve
    monkeypatch.setattr(Store, "reserve", lambda store, size: tries.append(size) or reserve(store, size))
    now = 0.0
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.writer.time.monotonic", lambda: now)
    for _ in range(20 * 600):
        now += 0.05
        outbox.poll()
    assert outbox.stats.place == "memory"
    assert 10 <= len(tries) <= 40


def test_a_disk_full_at_the_first_start(disk: SmallDisk, on_disk: Bench) -> None:
    disk.fill()
    outbox = on_disk.make()
    offer(outbox, 0, 10)
    retry(outbox)
    assert outbox.stats.place == "memory"
    assert "is full" in (outbox.stats.reason or "") or "No space left" in (outbox.stats.reason or "")
    disk.empty()
    retry(outbox)
    assert outbox.stats.place == "disk"
    outbox.writer.flush()
    assert stored(on_disk) == list(range(10))


def test_messages_in_memory_are_bounded_and_written_when_the_disk_has_room(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make(max_memory_mb=1)
    offer(outbox, 0, 100)
    outbox.poll()
    disk.fill()
    for first in range(100, 5100, 50):
        offer(outbox, first, 50)
        outbox.poll()
        assert outbox._memory.unwritten_bytes <= 1_000_000
    dropped = outbox.stats.dropped
    waiting = outbox.in_memory_only
    assert outbox.stats.place == "memory"
    assert dropped > 0
    disk.empty()
    retry(outbox)
    assert outbox.in_memory_only == 0
    assert outbox.stats.dropped == dropped
    outbox.writer.flush()
    kept = stored(on_disk)
    assert len(kept) == 5100 - dropped
    assert kept == sorted(kept)
    assert kept[-waiting:] == list(range(5100 - waiting, 5100))


def test_the_log_keeps_its_size(disk: SmallDisk, on_disk: Bench) -> None:
    """4.1 MB of log were seen for 0.72 MB of messages."""
    outbox = on_disk.make()
    assert on_disk.path is not None
    log = on_disk.path.with_name(f"{on_disk.path.name}-wal")
    for first in range(0, 3000, 10):
        offer(outbox, first, 10)
        outbox.poll()
        assert log.stat().st_size <= LOG_BYTES
    disk.fill()
    outbox.begin()
    assert drain(outbox) == list(range(3000))
    assert log.stat().st_size == LOG_BYTES


def test_a_large_message_does_not_leave_a_large_log(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    assert on_disk.path is not None
    outbox.offer(message(0, size=2_500_000))
    outbox.poll()
    offer(outbox, 1, 5)
    outbox.poll()
    assert on_disk.path.with_name(f"{on_disk.path.name}-wal").stat().st_size <= 2 * LOG_BYTES
    outbox.writer.flush()
    assert stored(on_disk) == list(range(6))


def test_if_removing_fails_nothing_is_sent_twice_and_all_is_removed_later(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 1000)
    outbox.poll()
    outbox.writer.flush()
    assert on_disk.path is not None
    on_disk.path.with_name(f"{on_disk.path.name}-wal").unlink()  # the log's blocks: now somebody else's
    disk.fill()
    outbox = on_disk.make("c" * 32)
    outbox.begin()
    assert drain(outbox) == list(range(1000))
    assert outbox.store is not None
    assert outbox.store.count == 1000
    assert outbox.stats.waiting == 0
    outbox.end()
    outbox.begin()
    assert drain(outbox) == []
    disk.empty()
    retry(outbox)
    assert outbox.stats.place == "disk"
    outbox.writer.flush()
    assert stored(on_disk) == []


def test_a_used_up_quota_is_a_full_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = bench.make()
    offer(outbox, 0, 10)
    outbox.poll()

    def no_quota(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "posix_fallocate", no_quota)
    offer(outbox, 10, 3000)
    outbox.poll()
    assert outbox.stats.reason == f"outbox file {bench.path} cannot grow: Disk quota exceeded"
    outbox.begin()
    assert drain(outbox) == list(range(3010))


def test_a_damaged_file_waits_for_a_disk_with_room(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 2000)
    outbox.poll()
    outbox.writer.flush()
    assert on_disk.path is not None
    with on_disk.path.open("r+b") as file:
        file.seek(on_disk.path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    disk.fill()
    outbox = on_disk.make("c" * 32)
    outbox.begin()
    outbox.poll()
    disk.empty()
    retry(outbox)
    retry(outbox)
    seen = drain(outbox)
    assert len(seen) > 1980
    assert outbox.stats.place == "disk"


def test_messages_wait_in_order_over_a_disk_that_fills_and_empties(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    for turn in range(4):
        if turn % 2:
            disk.fill()
        offer(outbox, turn * 1500, 1500)
        outbox.poll()
        if turn % 2:
            disk.empty()
            retry(outbox)
    outbox.begin()
    assert drain(outbox) == list(range(6000))


def test_numbers_on_disk_do_not_count_twice() -> None:
    """What was answered and cannot be removed does not wait."""
    outbox = Bench(None).make(max_disk_mb=0)
    outbox.use_disk(OnDisk(3, 300, 3))
    for number in (1, 3):
        outbox._done.add(number)
    assert outbox.stats.waiting == 1
