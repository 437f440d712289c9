"""A damaged outbox file: what can be read is recovered, the rest is put aside, and the store can be used again."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.mqtt.outbox.delivery import ROW_OVERHEAD
from edgemeta.daemon.mqtt.outbox.errors import DamagedError, StoreError
from edgemeta.daemon.mqtt.outbox.recovery import open_store, replaced
from edgemeta.daemon.mqtt.outbox.store import _CHECKSUMS, Store
from tests.daemon.mqtt.outbox.conftest import Bench, drain, message
from tests.daemon.mqtt.outbox.test_store import ALL, BOOT, deliveries, filled, values

FRAME = "edgemeta/t/front/frame"


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE ledger",
        "DROP TABLE messages",
        "DELETE FROM ledger",
        "UPDATE ledger SET count = 'many'",
        "ALTER TABLE messages RENAME COLUMN topic TO subject",
        "ALTER TABLE messages ADD COLUMN extra",
    ],
)
def test_tables_of_another_shape_are_put_aside(tmp_path: Path, damage: str) -> None:
    path = filled(tmp_path / "o", 3)
    with closing(sqlite3.connect(path)) as database:
        database.execute(damage)
        database.commit()
    store = open_store(path, BOOT)
    try:
        store.add(deliveries(4, 1))
        values(store)
    except DamagedError:
        store.close()
    else:
        store.close()
        assert (tmp_path / "o.damaged").exists()


def test_rows_that_hold_no_message_are_passed_by_and_counted(tmp_path: Path) -> None:
    path = filled(tmp_path / "o", 8)
    with closing(sqlite3.connect(path)) as database:
        for number, change in enumerate(
            (
                "topic = CAST(x'ff' AS TEXT)",
                "topic = 'a/+/b'",
                "topic = ''",
                "payload = 5",
                "qos = 7",
                "qos = 'x'",
                "topic = x'6100'",
            ),
            start=1,
        ):
            database.execute(f"UPDATE messages SET {change} WHERE number = {number}")
        database.commit()
    store = Store(path, BOOT)
    assert values(store) == [8]
    assert (store.take_damaged(), store.count) == (["\ufffd", "a/+/b", "", *[FRAME] * 3, "a\0"], 1)
    assert store.take_damaged() == []
    store.close()


def flipped(path: Path, before: bytes, after: bytes) -> None:
    content = path.read_bytes()
    assert content.count(before) == 1
    path.write_bytes(content.replace(before, after))


def test_a_flipped_bit_is_found_the_message_dropped_counted_and_said(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite has no checksums: a flipped bit in a payload is valid to it."""
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(1000 + number))
    outbox.poll()
    assert bench.path is not None
    bench.kill(outbox)
    flipped(bench.path, b"1002", b"1012")
    outbox = bench.make()
    outbox.begin()
    assert drain(outbox) == [1000, 1001, 1003, 1004]
    assert outbox.stats.damaged == 1
    assert outbox.stats.waiting == 0
    assert bench.dropped == {"t/front/frame": 1}
    assert caplog.text.count("the disk has damaged 1 messages; they are dropped") == 1


@pytest.mark.parametrize(
    "change",
    [
        "topic = 't/other/frame'",
        "boot = 'another'",
        "made_ns = made_ns + 1",
        "utc_ns = 5",
        "qos = 0",
        "payload = x'31'",
        "number = 77",
    ],
)
def test_every_column_is_in_the_checksum(tmp_path: Path, change: str) -> None:
    path = filled(tmp_path / "o", 3)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE messages SET {change} WHERE number = 2")
        if "number" in change:
            database.execute(f"UPDATE checksums SET {change} WHERE number = 2")
        database.commit()
    store = Store(path, BOOT)
    assert values(store) == [1, 3]
    assert len(store.take_damaged()) == 1
    store.close()


def version_1(path: Path, count: int) -> Path:
    """A file as the first version wrote it."""
    filled(path, count)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE checksums")
        database.execute("PRAGMA user_version = 1")
        database.commit()
    return path


def test_a_file_of_version_1_is_upgraded_in_place_and_its_messages_are_sent(tmp_path: Path) -> None:
    path = version_1(tmp_path / "o", 3)
    store = Store(path, BOOT)
    store.add(deliveries(4, 2))
    assert values(store) == [1, 2, 3, 4, 5]
    store.remove(1, 4)
    store.close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        assert database.execute("SELECT number FROM checksums").fetchall() == [(5,)]


def test_a_file_of_version_1_is_used_as_it_is_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = version_1(tmp_path / "o", 3)
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.store._CHECKSUMS", f"PRAGMA max_page_count = 1; {_CHECKSUMS}")
    store = Store(path, BOOT)
    store.add(deliveries(4, 1))
    assert values(store) == [1, 2, 3, 4]
    store.remove(1, 3)
    assert (store.count, values(store)) == (1, [4])
    store.close()
    monkeypatch.undo()
    store = Store(path, BOOT)
    store.add(deliveries(5, 1))
    assert values(store) == [4, 5]
    store.close()


def test_damaged_messages_of_a_damaged_file_are_not_recovered(tmp_path: Path) -> None:
    path = filled(tmp_path / "o", 3)
    flipped(path, b"edgemeta/t/front/frame2", b"edgemeta/t/front/frame7")
    store = replaced(DamagedError("outbox file o is damaged"), path, BOOT, 1)
    assert values(store) == [1, 3]
    store.close()


def test_readable_messages_of_a_damaged_file_are_recovered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = filled(tmp_path / "o", 1000, 700)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(content)
    store = Store(path, BOOT)
    with pytest.raises(DamagedError, match="is damaged: database disk image is malformed"):
        values(store)
    store.close()

    with caplog.at_level("WARNING"):
        store = replaced(DamagedError("outbox file o is damaged"), path, BOOT, 1)
    saved = values(store)
    assert 980 < len(saved) < 1000
    assert saved == sorted(saved)
    assert (saved[0], saved[-1]) == (1, 1000)
    assert store.count == len(saved)
    assert f"{len(saved)} messages recovered, the damaged file is kept as {path}.damaged" in caplog.text
    store.close()


@pytest.mark.parametrize("content", [b"x" * 5000, b"not a database", b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database_is_put_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "o"
    path.write_bytes(content)
    try:
        store = open_store(path, BOOT)
    except StoreError as error:
        assert "another program's" in str(error)  # noqa: PT017 - an SQLite header without an owner
        assert path.read_bytes() == content
        return
    assert values(store) == []
    store.close()
    assert (tmp_path / "o.damaged").read_bytes() == content


def test_a_ledger_with_too_small_numbers_and_rows_without_a_payload(tmp_path: Path) -> None:
    """Damage that SQLite does not notice: counts never fall below nothing."""
    path = filled(tmp_path / "o", 5)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE ledger SET count = 1, bytes = 1")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, 'payload BLOB NOT NULL', 'payload BLOB')")
        database.commit()
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE messages SET payload = NULL WHERE number = 1")
        database.commit()
    store = open_store(path, BOOT)
    rows = store.oldest(3)
    assert rows[0].size == ROW_OVERHEAD
    store.remove(1, 3)
    assert store.count == 2
    assert store.bytes == sum(row.size for row in store.oldest(ALL))
    store.close()


def test_a_name_in_a_damaged_file_that_is_no_text(tmp_path: Path) -> None:
    """Python then raises UnicodeDecodeError for SQLite's own words."""
    path = filled(tmp_path / "o", 3)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE mess", b"CREATE \x81ABLE mess"))
    store = open_store(path, BOOT)
    assert store.count == 0
    store.close()
    assert (tmp_path / "o.damaged").exists()


@settings(max_examples=60, deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 0.9999), st.binary(min_size=1, max_size=64)), min_size=1, max_size=5),
    cut=st.none() | st.floats(0, 1),
)
def test_any_damage_gives_a_store_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory,
    whole: bytes,
    flips: list[tuple[float, bytes]],
    cut: float | None,
) -> None:
    """Bytes overwritten anywhere, the end cut off: never another exception, and the store can be used afterwards."""
    path = tmp_path_factory.mktemp("damage") / "o"
    path.write_bytes(damaged(whole, flips, cut))
    use(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of sixty messages."""
    return filled(tmp_path_factory.mktemp("whole") / "o", 60, 300).read_bytes()


def damaged(whole: bytes, flips: list[tuple[float, bytes]], cut: float | None) -> bytes:
    content = bytearray(whole)
    for place, piece in flips:
        start = int(place * len(content))
        content[start : start + len(piece)] = piece
    return bytes(content[: int(cut * len(content))] if cut is not None else content)


def use(path: Path) -> None:
    """Use a file as the writer does: damage leads to a new one, another fault to one sentence."""
    store = None
    try:
        store = open_store(path, BOOT)
        for _ in range(3):
            try:
                loaded, _ = store.load(0, ALL, 20)
                store.remove(0, max((delivery.row for delivery in loaded), default=0))
                store.add(deliveries(1000, 3))
                store.oldest(10)
            except DamagedError as error:
                store.close()
                store = replaced(error, path, BOOT, store.last + 1)
            else:
                return
        raise AssertionError("a replaced store is still damaged")
    except DamagedError:
        raise
    except StoreError as error:
        assert str(path) in str(error)  # noqa: PT017 - an error is one of two good ends
    finally:
        if store is not None:
            store.close()


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_twenty_thousand_damaged_files(tmp_path: Path, whole: bytes, fed: Callable[[str, int], None]) -> None:
    generator = random.Random(20)
    for _ in range(20_000):
        path = tmp_path / "p"
        for leftover in tmp_path.glob("p*"):
            leftover.unlink()
        flips = [
            (generator.random() * 0.9999, generator.randbytes(generator.randint(1, 64)))
            for _ in range(generator.randint(1, 5))
        ]
        path.write_bytes(damaged(whole, flips, generator.random() if generator.random() < 0.2 else None))
        use(path)
    fed("outbox files", 20_000)
