"""A damaged outbox file is put aside, and what can still be read of it goes into a new one."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from edgemeta.daemon.outbox.store import DamagedError, Store, StoreError

log = logging.getLogger(__name__)

COMPANIONS = ("", "-wal", "-shm")
"""What SQLite adds to the name of a database for its other files."""


def open_store(path: Path, boot: str, first: int = 1) -> Store:
    """Open the outbox file. A damaged one is kept as PATH.damaged, in the place of an earlier such file.

    Raises StoreError where no file can be used.
    """
    try:
        return Store(path, boot, first)
    except DamagedError as error:
        return replaced(error, path, boot, first)


def replaced(error: DamagedError, path: Path, boot: str, first: int) -> Store:
    """Put a damaged file (closed by now) aside and return a new store with all messages that it still gives."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        for companion in COMPANIONS:
            aside.with_name(aside.name + companion).unlink(missing_ok=True)
        for companion in COMPANIONS:
            part = path.with_name(path.name + companion)
            if part.exists():
                part.rename(aside.with_name(aside.name + companion))
    except OSError as failure:
        raise StoreError(f"{error}; it cannot be put aside: {failure.strerror}") from failure
    store = Store(path, boot, first)
    try:
        saved = sum(store.take_over(readable(aside, order)) for order in ("ASC", "DESC"))
    except StoreError:
        store.close()
        raise
    log.warning("%s; %d messages were saved from it, it is kept as %s", error, saved, aside)
    return store


def readable(path: Path, order: str) -> Iterator[tuple[object, ...]]:
    """Yield rows of a damaged file in one order until reading fails: from both ends, all but the damaged middle."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield from database.execute(
                "SELECT number, boot, made_ns, utc_ns, topic, qos, payload FROM messages "  # noqa: S608 - two constants
                f"WHERE typeof(number) = 'integer' AND typeof(payload) = 'blob' ORDER BY number {order}"
            )
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return  # what lies beyond cannot be read
