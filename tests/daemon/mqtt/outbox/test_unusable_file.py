"""An outbox whose file cannot be written: on a read-only disk, removed or replaced while it is in use."""

import errno
import logging
import os
from pathlib import Path

import pytest

from edgemeta.daemon.mqtt.outbox.files import OutboxFiles
from edgemeta.daemon.mqtt.outbox.store import Store
from rig.disk import SmallDisk
from tests.daemon.mqtt.outbox.conftest import Bench, drain, offer, retry, stored, value


def test_a_read_only_disk_is_read_and_everything_is_sent_once(disk: SmallDisk, on_disk: Bench) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 1000)
    outbox.poll()
    on_disk.kill(outbox)
    disk.protect()
    outbox = on_disk.make("c" * 32)
    reason = f"outbox file {on_disk.path} cannot be written: Read-only file system"
    assert (outbox.stats.place, outbox.stats.reason) == ("memory", reason)
    offer(outbox, 1000, 5)
    outbox.begin()
    assert drain(outbox) == list(range(1005))
    outbox.end()
    retry(outbox)
    outbox.begin()
    assert drain(outbox) == []
    offer(outbox, 1005, 5)
    outbox.end()
    disk.release()
    retry(outbox)
    assert outbox.stats.place == "disk"
    outbox.writer.flush()
    assert stored(on_disk) == list(range(1005, 1010))


def test_messages_in_the_log_of_a_killed_process_are_read_from_a_read_only_disk(
    disk: SmallDisk, on_disk: Bench, tmp_path: Path
) -> None:
    outbox = on_disk.make()
    offer(outbox, 0, 20)
    outbox.poll()
    assert on_disk.path is not None
    copy = Bench(on_disk.path.with_name("copy.sqlite3"))
    assert copy.path is not None
    for end in ("", "-wal"):  # as the files lie while the process runs
        on_disk.path.with_name(f"{copy.path.name}{end}").write_bytes(Path(f"{on_disk.path}{end}").read_bytes())
    on_disk.kill(outbox)
    disk.protect()
    outbox = copy.make("c" * 32)
    outbox.begin()
    assert drain(outbox) == list(range(20))
    copy.kill(outbox)


def test_a_file_that_another_process_has_open_is_not_read_on_a_read_only_disk(
    disk: SmallDisk, on_disk: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may be read-only here and not there, as in a container."""
    outbox = on_disk.make()
    offer(outbox, 0, 20)
    outbox.poll()
    assert on_disk.path is not None
    path = on_disk.path
    child = os.fork()
    if child == 0:  # locks belong to a process
        try:
            monkeypatch.setattr(OutboxFiles, "_open_for_writing", staticmethod(_read_only_file_system))
            OutboxFiles(path)
        except OSError as error:
            os._exit(0 if error.errno in (errno.EAGAIN, errno.EACCES) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _read_only_file_system(path: Path) -> int:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_file_removed_while_in_use_is_created_again_with_its_messages(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = bench.make()
    offer(outbox, 0, 100)
    outbox.poll()
    assert bench.path is not None
    bench.path.unlink()
    outbox.writer._gone_checked_ns = 0
    with caplog.at_level(logging.WARNING):
        outbox.poll()
    assert caplog.messages == [f"outbox file {bench.path} was removed while in use; a new one has its 100 messages"]
    offer(outbox, 100, 10)
    outbox.poll()
    outbox.begin()
    outbox.poll()
    deliveries = [outbox.next_replayed() for _ in range(2)]
    assert [value(delivery) for delivery in deliveries if delivery] == [0, 1]
    bench.kill(outbox)
    assert stored(bench) == list(range(110))


def test_a_file_replaced_while_in_use_is_used_once_the_old_one_is_empty(bench: Bench) -> None:
    outbox = bench.make()
    offer(outbox, 0, 100)
    outbox.poll()
    assert bench.path is not None
    bench.path.rename(bench.path.with_name("moved"))
    other = Store(bench.path, "d" * 32)
    other.close()
    outbox.writer._gone_checked_ns = 0
    outbox.poll()
    assert (
        outbox.stats.reason
        == f"outbox file {bench.path} was replaced while in use; messages of the old one are sent first"
    )
    outbox.begin()
    assert drain(outbox) == list(range(100))
    outbox.end()
    retry(outbox)  # takes the other file
    offer(outbox, 100, 1)
    retry(outbox)
    assert outbox.stats.place == "disk"
    outbox.writer.flush()
    assert stored(bench) == [100]
