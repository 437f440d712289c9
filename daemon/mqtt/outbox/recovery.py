"""Recovers a damaged outbox file: it is moved aside, and messages that can still be read go into a new one."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from edgemeta.daemon.mqtt.outbox.errors import DamagedError, StoreError
from edgemeta.daemon.mqtt.outbox.rows import COLUMNS, Values, select, whole
from edgemeta.daemon.mqtt.outbox.store import Store

log = logging.getLogger(__name__)

COMPANIONS = ("", "-wal", "-shm", "-spare")
"""Suffixes of the files of a database: SQLite's and ours."""


def open_store(path: Path, boot: str, first: int = 1) -> Store:
    """Open the outbox file. A damaged one is kept as PATH.damaged and replaces an earlier such file.

    Raises StoreError if no file can be used.
    """
    try:
        return Store(path, boot, first)
    except DamagedError as error:
        return replaced(error, path, boot, first)


def replaced(error: DamagedError, path: Path, boot: str, first: int) -> Store:
    """Move a damaged file (already closed) aside and return a new store with all messages that could be read from it.

    Raises StoreError if the disk does not accept them; then the damaged file is back at its path, for another attempt.
    """
    aside = path.with_name(f"{path.name}.damaged")
    try:
        _move(path, aside)
    except OSError as failure:
        raise StoreError(f"{error}; it cannot be moved aside: {failure.strerror}") from failure
    try:
        store = Store(path, boot, first)
        try:
            saved = sum(store.take_over(readable(aside, order)) for order in ("ASC", "DESC"))
        except StoreError:
            store.close()
            raise
    except StoreError as failure:
        try:
            _move(aside, path)
        except OSError as kept:
            raise StoreError(f"{failure}; the damaged file stays at {aside}: {kept.strerror}") from failure
        raise
    log.warning("%s; %d messages recovered, the damaged file is kept as %s", error, saved, aside)
    return store


def rescued(lost: Store, path: Path, boot: str) -> Store:
    """Return a new store with all messages of a store whose file was removed while open, and close that store.

    If another outbox is at its path, it is used once the removed one is empty, as their numbers may be the same. A
    file of another program is left alone. Raises StoreError while there can be no new store; the old one is then still
    open.
    """
    replaced_by_another = os.path.exists(path)  # noqa: PTH110 - False, too, where the folder is not readable
    try:
        store = Store(path, boot, lost.last + 1)
    except DamagedError as error:
        raise StoreError(f"outbox file {path} was replaced while in use, by a file that is no outbox") from error
    if replaced_by_another:
        if lost.count:
            store.close()
            raise StoreError(f"outbox file {path} was replaced while in use; messages of the old one are sent first")
        lost.close()
        return store
    try:
        saved = store.take_over(lost.rows())
    except StoreError:
        store.close()
        _remove(path)
        raise
    lost.close()
    log.warning("outbox file %s was removed while in use; a new one has its %d messages", path, saved)
    return store


def _move(path: Path, to: Path) -> None:
    """Rename a database with its other files, replacing those of that name."""
    _remove(to)
    for companion in COMPANIONS:
        part = path.with_name(path.name + companion)
        if part.exists():
            part.rename(to.with_name(to.name + companion))


def _remove(path: Path) -> None:
    for companion in COMPANIONS:
        path.with_name(path.name + companion).unlink(missing_ok=True)


def readable(path: Path, order: str) -> Iterator[Values]:
    """Yield intact rows of a damaged file in one order until reading fails: in both orders, all but its middle."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.text_factory = bytes
            has_checksums = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'checksums'").fetchone()
            query = select(COLUMNS, has_checksums is not None)
            for row in database.execute(f"{query} ORDER BY number {order}"):
                if (intact := whole(row[:-1], row[-1])) is not None:
                    yield intact
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return  # the rest cannot be read
