"""Why the outbox file cannot be used: the disk's errors and SQLite's, told apart by what the writer does about them."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgemeta.model.errors import EdgemetaError

_MISSHAPEN = ("no such", "table ")
"""How SQLite's errors begin if tables or columns are not those of the store."""


class StoreError(EdgemetaError):
    """The outbox file cannot be used now: disk full, read-only, locked, or another program's. It is not changed."""


class FullError(StoreError):
    """The disk is full: no more messages can be added. Those in the file can be read."""


class DamagedError(StoreError):
    """The outbox file is not an SQLite file, or damaged."""


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk and SQLite's into StoreError, if another attempt may succeed, or DamagedError."""
    try:
        yield
    except OSError as error:
        raise os_error(f"outbox file {path} cannot be used", error) from error
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and not str(error).startswith(_MISSHAPEN):
            kind = FullError if "is full" in str(error) else StoreError
            raise kind(f"outbox file {path} cannot be used: {_reason(error)}") from error
        raise DamagedError(f"outbox file {path} is damaged: {error}") from error
    except UnicodeDecodeError as error:  # SQLite's message contains a name from the file
        raise DamagedError(f"outbox file {path} is damaged: a name in it is not text") from error


def os_error(what: str, error: OSError) -> StoreError:
    """Return the exception for an error of the operating system; a used-up quota counts as a full disk."""
    kind = FullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
    return kind(f"{what}: {error.strerror}")


def _reason(error: sqlite3.OperationalError) -> str:
    """Return SQLite's message; for a lock, which only another process can hold, our own."""
    return "another process has it open" if "locked" in str(error) else str(error)
