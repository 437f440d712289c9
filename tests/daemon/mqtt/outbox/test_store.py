"""The outbox file: order, numbers, ledger, space; other processes and foreign files. Damage: test_recovery.py."""

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.mqtt.outbox.delivery import ROW_OVERHEAD, Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.errors import FullError, StoreError
from edgemeta.daemon.mqtt.outbox.files import LOG_BYTES
from edgemeta.daemon.mqtt.outbox.recovery import open_store
from edgemeta.daemon.mqtt.outbox.store import Store

BOOT = "b" * 32
ALL = 10**9


def deliveries(first: int, count: int, size: int = 0) -> list[tuple[Delivery, int | None]]:
    return [
        (
            Delivery(
                OutgoingMessage("edgemeta/t/front/frame", f"{value}".encode().rjust(size), 1, retain=False, kept=True)
            ),
            None,
        )
        for value in range(first, first + count)
    ]


def values(store: Store) -> list[int]:
    loaded, _ = store.load(0, ALL, ALL)
    return [int(delivery.message.payload) for delivery in loaded]


def filled(path: Path, count: int, size: int = 0) -> Path:
    store = Store(path, BOOT)
    store.add(deliveries(1, count, size))
    store.close()
    return path


def test_messages_keep_their_order_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "outbox.sqlite3"
    store = Store(path, BOOT)
    assert store.add(deliveries(1, 3)) == [1, 2, 3]
    assert store.add(deliveries(4, 2), sync=True) == [4, 5]
    store.close()
    store = Store(path, "c" * 32)
    assert (store.count, store.last) == (5, 5)
    assert values(store) == [1, 2, 3, 4, 5]
    loaded, reached = store.load(1, 4, 2)
    assert [int(one.message.payload) for one in loaded] == [2, 3]
    assert reached == 3
    assert not loaded[0].this_boot
    store.remove(2, 3)
    store.add(deliveries(6, 1))
    assert values(store) == [1, 4, 5, 6]
    assert [row.this_boot for row in store.oldest(9)] == [False, False, False, True]
    store.close()


def test_the_ledger_counts_messages_and_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 10, 200))
    each = 200 + len("edgemeta/t/front/frame") + ROW_OVERHEAD
    assert (store.count, store.bytes) == (10, 10 * each)
    store.remove(1, 4)
    assert (store.count, store.bytes) == (6, 6 * each)
    store.close()
    again = Store(tmp_path / "o", BOOT)
    assert (again.count, again.bytes) == (6, 6 * each)
    again.close()


def test_missing_messages_are_not_counted_as_removed(tmp_path: Path) -> None:
    """As after a damaged file was replaced, while some of its messages were in flight."""
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 5))
    store.remove(1, 2)
    store.remove(1, 2)
    store.add(deliveries(6, 1))
    assert store.count == len(store.oldest(ALL)) == 4
    assert store.bytes == sum(row.size for row in store.oldest(ALL))
    store.close()


def test_an_empty_outbox_gives_its_space_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 5000, 800), sync=True)
    store.remove(1, ALL)
    store.give_space_back()
    store.close()
    assert (tmp_path / "o").stat().st_size < 300_000


def test_the_file_is_little_larger_than_its_messages(tmp_path: Path) -> None:
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 5000, 700))
    size = store.bytes
    store.close()
    assert (tmp_path / "o").stat().st_size < 1.3 * size


def test_a_killed_process_loses_no_commit(tmp_path: Path) -> None:
    """SIGKILL right after a commit: all of it is there, none of what was not committed."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage\n"
        "from edgemeta.daemon.mqtt.outbox.store import Store\n"
        "store = Store(Path(sys.argv[1]), 'b' * 32)\n"
        "for value in range(50):\n"
        "    store.add([(Delivery(OutgoingMessage('t', str(value).encode(), 1, False)), None)])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    path = tmp_path / "o"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert (tmp_path / "o-wal").stat().st_size > 0
    store = Store(path, BOOT)
    assert values(store) == list(range(50))
    assert store.count == 50
    store.close()


def test_a_file_that_another_process_uses_is_left_alone(tmp_path: Path) -> None:
    first = Store(tmp_path / "o", BOOT)
    with pytest.raises(StoreError, match="cannot be used: another process has it open"):
        Store(tmp_path / "o", BOOT)
    first.close()


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(StoreError, match="outbox folder /proc/edgemeta cannot be created: No such file or directory"):
        Store(Path("/proc/edgemeta/outbox.sqlite3"), BOOT)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "o"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")
        database.execute("INSERT INTO recipes VALUES ('soup')")
        database.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is another program's database, expected one of edgemeta"):
        open_store(path, BOOT)
    assert path.read_bytes() == before


def test_a_file_that_was_never_finished_is_finished(tmp_path: Path) -> None:
    """A full disk, or a power cut, while the file was made: it has a first page and nothing else."""
    path = tmp_path / "o"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (a)")
        database.execute("DROP TABLE t")
    assert path.stat().st_size > 0
    store = Store(path, BOOT)
    store.add(deliveries(1, 5000, 800))
    store.remove(1, ALL)
    store.give_space_back()
    store.close()
    assert path.stat().st_size < 300_000


def test_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "o", 3)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreError, match="has version 3, expected 2"):
        open_store(path, BOOT)


def no_room(descriptor: int, offset: int, size: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 10))
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(FullError, match="cannot grow: No space left on device"):
        store.add(deliveries(11, 1000, 500))
    assert (store.count, store.last) == (10, 10)
    assert values(store) == list(range(1, 11))
    store.remove(1, 5)
    assert values(store) == list(range(6, 11))
    store.close()


def test_sqlite_never_makes_the_file_larger_than_what_was_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the estimate of what messages need is wrong, the commit fails as on a full disk."""
    store = Store(tmp_path / "o", BOOT)
    store.add(deliveries(1, 10))
    monkeypatch.setattr(store, "reserve", lambda size: None)
    with pytest.raises(FullError, match="database or disk is full"):
        store.add(deliveries(11, 10_000, 500))
    assert values(store) == list(range(1, 11))
    store.close()


@settings(max_examples=30, deadline=None)
@given(size=st.integers(0, 20_000), count=st.integers(1, 60))
def test_the_reserved_space_is_enough(tmp_path_factory: pytest.TempPathFactory, size: int, count: int) -> None:
    store = Store(tmp_path_factory.mktemp("reserve") / "o", BOOT)
    store.add(deliveries(1, 1, 0))
    store.add(deliveries(2, count, size))
    assert store.count == count + 1
    store.close()


@pytest.mark.parametrize("log_is_left", [True, False])
def test_an_end_cut_off_while_the_log_has_two_names(tmp_path: Path, log_is_left: bool) -> None:
    """A power cut while SQLite closes the database: the log's second name is there, the first one perhaps not."""
    path = tmp_path / "o"
    log, spare = tmp_path / "o-wal", tmp_path / "o-spare"
    store = Store(path, BOOT)
    store.add(deliveries(1, 50, 300))
    before = log.read_bytes()
    store.close()
    assert log.stat().st_size == len(before) == LOG_BYTES
    spare.write_bytes(before)  # with a header and frames that are in the database, too
    if not log_is_left:
        log.unlink()
    store = Store(path, BOOT)
    assert values(store) == list(range(1, 51))
    assert not spare.exists()
    store.remove(1, 49)
    store.close()
    store = Store(path, BOOT)
    assert values(store) == [50]
    store.close()
