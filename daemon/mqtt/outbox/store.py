"""The outbox on disk: one SQLite file in WAL mode, opened by one process and used by one thread at a time.

A commit is written to the write-ahead log before it returns (`synchronous=NORMAL`) and survives the end of the process;
with `sync` it is also flushed to the medium (`FULL`) and survives a power cut. docs/decisions/0007 has the figures.

The blocks of the file are allocated before messages are written to it, so that messages can be read and removed on a
full disk (docs/decisions/0018).
"""

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from edgemeta.daemon.config.data_folder import make_folder
from edgemeta.daemon.mqtt.outbox.delivery import ROW_OVERHEAD, Delivery
from edgemeta.daemon.mqtt.outbox.errors import DamagedError, FullError, StoreError, os_error, translated_errors
from edgemeta.daemon.mqtt.outbox.files import LOG_BYTES, OutboxFiles
from edgemeta.daemon.mqtt.outbox.rows import COLUMNS, Row, Values, checksum, delivery_of, select, whole

APPLICATION_ID = 0x65646D74
"""`edmt`: identifies our files by their header."""

_MAGIC = b"SQLite format 3\0"
_OWNER = slice(68, 72)
"""Where SQLite's header has the application id."""

SCHEMA_VERSION = 2
SPARE_PAGES = 256
"""Free pages (1 MB) above which an empty outbox frees its disk space."""

BATCH_BYTES = 200_000
"""Bytes of messages added by one commit, unless a single message is larger: it must fit into half of the log."""

BATCH_ROWS = 100
"""Messages removed by one commit: each may be on a page of its own, and all must fit into half of the log."""

_GROWTH_PAGES = 64
"""Pages (256 KB) by which the file grows beyond what is needed now."""

_VALUES = "VALUES (?, ?, ?, ?, ?, ?, ?)"
_SIZES = f"length(CAST(topic AS BLOB)) + length(payload) + {ROW_OVERHEAD}"

_SCHEMA = """
    CREATE TABLE messages (
        number INTEGER PRIMARY KEY, boot TEXT NOT NULL, made_ns INTEGER NOT NULL, utc_ns INTEGER,
        topic TEXT NOT NULL, qos INTEGER NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE ledger (count INTEGER NOT NULL, bytes INTEGER NOT NULL);
    INSERT INTO ledger VALUES (0, 0);
"""

_CHECKSUMS = f"""
    CREATE TABLE checksums (number INTEGER PRIMARY KEY, checksum INTEGER NOT NULL);
    PRAGMA user_version = {SCHEMA_VERSION};
"""
"""What version 2 added."""


class Store:
    """Messages in the order of their numbers. `count`, `bytes` and `last` (number) are those of the last commit.

    On a read-only disk an existing file can only be read (`read_only`).
    """

    def __init__(self, path: Path, boot: str, first: int = 1) -> None:
        """Open or create the file. New messages get numbers from `first` on or higher. Raises StoreError."""
        self.path = path
        self._translated_errors = partial(translated_errors, path)
        self._boot = boot.encode()
        self._damaged: list[str] = []
        self._most_pages = 0
        try:
            make_folder(path.parent)
        except OSError as error:
            raise StoreError(f"outbox folder {path.parent} cannot be created: {error.strerror}") from error
        try:
            self._files = OutboxFiles(path)
        except OSError as error:
            raise os_error(f"outbox file {path} cannot be opened", error) from error
        self.read_only = self._files.read_only
        try:
            with self._translated_errors():
                self._expect_own_log()
                self._db = sqlite3.connect(
                    self._files.address, uri=True, timeout=1.0, isolation_level=None, check_same_thread=False
                )
        except StoreError:
            self._files.close()
            raise
        try:
            with self._translated_errors():
                self._open(first)
        except StoreError:
            self._db.close()
            self._files.close()
            raise

    def _open(self, first: int) -> None:
        self._db.text_factory = bytes  # a damaged text must not raise before it is checked
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA synchronous = NORMAL")
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner == tables == 0 and not self.read_only:  # a new file, or one that was not completed on a full disk
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            if self._db.execute("PRAGMA page_count").fetchone() != (0,):
                self._db.execute("VACUUM")  # else a file that has a page ignores it
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif owner != APPLICATION_ID:
            raise self._of_another_program
        (self._page,) = self._db.execute("PRAGMA page_size").fetchone()
        if not self.read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // 2 // self._page}")
            self._db.execute("PRAGMA secure_delete = OFF")  # else removed content is overwritten with zeros
        self._complete()
        ledger = self._db.execute("SELECT count, bytes FROM ledger").fetchall()
        (last,) = self._db.execute("SELECT max(number) FROM messages").fetchone()
        if len(ledger) != 1 or not all(isinstance(value, int) and value >= 0 for value in ledger[0]):
            raise DamagedError(f"outbox file {self.path} is damaged: its ledger is {ledger}")
        self.count, self.bytes = self._ledger = ledger[0]
        self.last = max(last or 0, first - 1)

    def _complete(self) -> None:
        """Create the tables of a new file, and the one that a file of version 1 lacks: on a full disk it goes without.

        Raises StoreError for any other version.
        """
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0 and not self.read_only:
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {_CHECKSUMS} COMMIT;")
        elif version == 1 and not self.read_only:
            try:
                with self._translated_errors():
                    self._db.executescript(f"BEGIN IMMEDIATE; {_CHECKSUMS} COMMIT;")
            except FullError:
                self._db.execute("ROLLBACK")
        elif version not in (1, SCHEMA_VERSION):
            raise StoreError(f"outbox file {self.path} has version {version}, expected {SCHEMA_VERSION}")
        (now,) = self._db.execute("PRAGMA user_version").fetchone()
        self._has_checksums = now == SCHEMA_VERSION

    def _expect_own_log(self) -> None:
        """Raise DamagedError or StoreError where there is a log beside a file that is no outbox.

        It may be the log of an outbox whose file was replaced: SQLite would write its content into that file.
        """
        header = self._files.header
        if not header or not self._files.log_size:
            return
        if not header.startswith(_MAGIC):
            raise DamagedError(f"outbox file {self.path} is damaged: file is not a database")
        if int.from_bytes(header[_OWNER], "big") != APPLICATION_ID:
            raise self._of_another_program

    @property
    def _of_another_program(self) -> StoreError:
        return StoreError(f"outbox file {self.path} is another program's database, expected one of edgemeta")

    @property
    def gone(self) -> bool:
        """Whether the file is no longer at its path: it was removed, moved or replaced. Raises StoreError."""
        with self._translated_errors():
            return self._files.gone

    def reserve(self, size: int) -> None:
        """Make sure that the file has room for messages of `size` bytes. Raises FullError if it cannot grow.

        Reserves twice their bytes: in the worst case each page holds one message slightly larger than half a page.
        """
        self.expect_writable()
        with self._translated_errors():
            (used,) = self._db.execute("PRAGMA page_count").fetchone()
            (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        needed = used - free + 2 * size // self._page + 16
        held = self._files.size // self._page
        try:
            self._files.reserve((held if needed <= held else needed + _GROWTH_PAGES) * self._page)
        except OSError as error:
            raise os_error(f"outbox file {self.path} cannot grow", error) from error
        most = max(used, self._files.size // self._page)
        if most != self._most_pages:
            with self._translated_errors():
                self._db.execute(f"PRAGMA max_page_count = {most}")
            self._most_pages = most

    def add(self, added: Sequence[tuple[Delivery, int | None]], sync: bool = False) -> list[int]:
        """Add messages, each with the UTC in ns when it was made, or None; return their numbers.

        With `sync`, these and all earlier ones are flushed to the medium. Raises StoreError; then nothing has changed.
        """
        grown = sum(delivery.message.size for delivery, _ in added)
        self.reserve(grown)
        rows: list[Values] = [
            (number, self._boot, one.made_ns, utc_ns, one.topic.encode(), one.qos, one.payload)
            for number, (one, utc_ns) in enumerate(((each.message, utc_ns) for each, utc_ns in added), self.last + 1)
        ]
        with self._translated_errors():
            if sync:
                self._db.execute("PRAGMA synchronous = FULL")
            try:
                with self._transaction():
                    self._insert("INSERT", rows)
                    self._write_ledger(self.count + len(added), self.bytes + grown)
            finally:
                if sync:
                    self._db.execute("PRAGMA synchronous = NORMAL")
        self.last += len(added)
        self._bound_log()
        return [row[0] for row in rows]

    def _insert(self, verb: str, rows: Sequence[Values]) -> None:
        """Insert rows with their checksums; topic and boot are text in the file."""
        self._db.executemany(
            f"{verb} INTO messages {_VALUES}",
            ((*row[:1], row[1].decode(), *row[2:4], row[4].decode(), *row[5:]) for row in rows),
        )
        if self._has_checksums:
            sums = ((row[0], checksum(row)) for row in rows)
            self._db.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?)", sums)

    def remove(self, first: int, last: int) -> None:
        """Remove the messages with these numbers. Raises StoreError; then nothing has changed."""
        self.expect_writable()
        with self._translated_errors(), self._transaction():
            count, size = self._sum("WHERE number BETWEEN ? AND ?", first, last)
            for table in self._tables:
                self._db.execute(f"DELETE FROM {table} WHERE number BETWEEN ? AND ?", (first, last))  # noqa: S608
            left = self.count - count, self.bytes - size
            if min(left) < 0:  # the file was modified by others
                left = self._sum()
            self._write_ledger(*left)
        self._bound_log()

    def load(self, after: int, until: int, limit: int) -> tuple[list[Delivery], int]:
        """Read the oldest messages with after < number <= until; return them and the last number that was read.

        Damaged rows, and those without a valid message, are removed; `take_damaged` says which.
        """
        with self._translated_errors():
            rows = self._db.execute(
                f"{self._select} WHERE number > ? AND number <= ? ORDER BY number LIMIT ?", (after, until, limit)
            ).fetchall()
        found = [(row, whole(row[:-1], row[-1])) for row in rows]
        self._remove_damaged([row for row, intact in found if intact is None])
        reached = rows[-1][0] if len(rows) == limit else until
        return [delivery_of(intact, self._boot) for _, intact in found if intact is not None], reached

    @property
    def _select(self) -> str:
        return select(COLUMNS, self._has_checksums)

    @property
    def _tables(self) -> Sequence[str]:
        return ("messages", "checksums") if self._has_checksums else ("messages",)

    def take_damaged(self) -> list[str]:
        """Return the topics of damaged messages since the last call; empty for those of other boots, or unknown."""
        damaged, self._damaged = self._damaged, []
        return damaged

    def oldest(self, limit: int) -> list[Row]:
        """Return the oldest messages, without payloads."""
        with self._translated_errors():
            rows = self._db.execute(
                "SELECT number, boot, topic, length(CAST(topic AS BLOB)) + length(payload), made_ns, utc_ns "
                "FROM messages ORDER BY number LIMIT ?",
                (limit,),
            ).fetchall()
        return [
            Row(
                number,
                boot == self._boot,
                topic.decode(errors="replace") if isinstance(topic, bytes) else "",
                ROW_OVERHEAD + (size if isinstance(size, int) else 0),
                made_ns if isinstance(made_ns, int) else 0,
                utc_ns if isinstance(utc_ns, int) else None,
            )
            for number, boot, topic, size, made_ns, utc_ns in rows
        ]

    def rows(self) -> Iterator[Values]:
        """Yield all intact rows for `take_over`."""
        with self._translated_errors():
            for row in self._db.execute(f"{self._select} ORDER BY number"):
                if (intact := whole(row[:-1], row[-1])) is not None:
                    yield intact

    def take_over(self, rows: Iterator[Values]) -> int:
        """Add rows of another file with their numbers; return how many of them are new. Raises StoreError.

        After an error some are added and the ledger is wrong: the file must be discarded.
        """
        (before,) = self._db.execute("SELECT count(*) FROM messages").fetchone()
        while batch := list(islice(rows, BATCH_ROWS)):
            self.reserve(sum(len(value) for row in batch for value in row if isinstance(value, (bytes, str))))
            with self._translated_errors(), self._transaction():
                self._insert("INSERT OR IGNORE", batch)
            self._bound_log()
        with self._translated_errors(), self._transaction():
            self._write_ledger(*self._sum())
            self.last = max(self.last, *self._db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone())
        return int(self.count - before)

    def give_space_back(self) -> None:
        """Shrink the file if it is empty."""
        with self._translated_errors():
            (spare,) = self._db.execute("PRAGMA freelist_count").fetchone()
            if self.count == 0 and spare > SPARE_PAGES:
                self._db.executescript("PRAGMA incremental_vacuum")  # `execute` would free only one page

    def close(self) -> None:
        """Close the file; errors of the disk or of a damaged file are ignored. Committed messages are kept."""
        with self._files.log_kept(), suppress(sqlite3.DatabaseError):
            self._db.close()
        self._files.close()

    def expect_writable(self) -> None:
        """Raise StoreError if the file was opened on a read-only disk."""
        if self.read_only:
            raise StoreError(f"outbox file {self.path} cannot be written: {os.strerror(errno.EROFS)}")

    def _bound_log(self) -> None:
        """Empty a log that is too long: after a large message, or because SQLite could not do so by itself."""
        with self._translated_errors():
            if self._files.log_size > 2 * LOG_BYTES:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _write_ledger(self, count: int, size: int) -> None:
        self._db.execute("UPDATE ledger SET count = ?, bytes = ?", (count, size))
        self._ledger = count, size

    def _sum(self, where: str = "", *values: int) -> tuple[int, int]:
        """Count messages and their bytes."""
        count, size = self._db.execute(
            f"SELECT count(*), coalesce(sum({_SIZES}), 0) FROM messages {where}",  # noqa: S608 - constants
            values,
        ).fetchone()
        return count, size

    def _remove_damaged(self, rows: list[tuple[Any, ...]]) -> None:
        if not rows or self.read_only:
            return
        with suppress(FullError), self._translated_errors(), self._transaction():  # else they are skipped again
            for table in self._tables:
                self._db.executemany(f"DELETE FROM {table} WHERE number = ?", [row[:1] for row in rows])  # noqa: S608
            self._write_ledger(*self._sum())
            self._damaged += [_topic_of(row, self._boot) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
            self.count, self.bytes = self._ledger
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def _topic_of(row: tuple[Any, ...], boot: bytes) -> str:
    """Return the topic of a damaged row, as far as it is one of this boot."""
    return row[4].decode(errors="replace") if row[1] == boot and isinstance(row[4], bytes) else ""
