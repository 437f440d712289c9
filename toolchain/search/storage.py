"""Where trials are stored: an SQL database, or a journal file that survives kill -9 of any process that writes it.

Optuna's own locks for journal files are files that a killed process leaves behind, for others to wait 30 s for, and a
line that it had half written makes the journal unreadable. Here the kernel's lock (flock) ends with its process, and
whoever takes it next cuts off a last line without an end before anything is added.
"""

import fcntl
import os
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemeta.toolchain.errors import MissingExtraError, SearchError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_PART = 1 << 12
_PAUSE = 0.5
_TRIES = 6


class JournalLock:
    """Held by one process at a time, by a lock of the kernel on a file beside the journal."""

    def __init__(self, journal: Path) -> None:
        self._journal, self._path = journal, journal.with_name(f"{journal.name}.flock")
        self._file: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock, and cut off what a killed process left unfinished at the journal's end."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        self._file = file
        whole_lines(self._journal)
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def whole_lines(journal: Path) -> None:
    """Cut off the last line of a file if it has no end. The caller holds the lock."""
    with journal.open("r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _PART)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            file.truncate(end)


def open_storage(where: str) -> "BaseStorage":
    """The storage at a URL ("postgresql+psycopg://..."), or in a journal file. Raises ToolchainError.

    The connections to a database end with the object.
    """
    require_optuna()
    from optuna.storages import JournalStorage, RDBStorage, get_storage
    from optuna.storages.journal import JournalFileBackend
    from sqlalchemy.exc import DBAPIError

    if "://" not in where:
        path = Path(where)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise SearchError(f"{where}: the journal cannot be written: {error.strerror or error}") from error
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))  # type: ignore[arg-type]
    for left in reversed(range(_TRIES)):
        try:
            # pre-ping: a connection that a restart of the server has closed is replaced before it is used
            database = RDBStorage(where, engine_kwargs={"pool_pre_ping": True})
        except Exception as error:  # drivers and SQLAlchemy raise kinds of their own
            if left == 0 or not isinstance(error, DBAPIError):
                text = " ".join(str(error).split())
                raise SearchError(f"{without_password(where)}: the database cannot be opened: {text[:300]}") from error
            time.sleep(_PAUSE)  # the server is starting, or another worker is making the tables at this moment
        else:
            storage = get_storage(database)
            weakref.finalize(storage, database.engine.dispose)
            return storage
    raise AssertionError


class Patient:
    """A storage whose calls are repeated for up to `seconds` while its server cannot be reached.

    A call may have been carried out although its answer was lost. `Ledger` is right for repeated calls, too.
    """

    def __init__(self, storage: "BaseStorage", seconds: float) -> None:
        self._storage, self._seconds = storage, seconds

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._storage, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **options: Any) -> Any:
            from optuna.exceptions import StorageInternalError
            from sqlalchemy.exc import DBAPIError

            end = time.monotonic() + self._seconds
            while True:
                try:
                    return attribute(*args, **options)
                except (StorageInternalError, DBAPIError) as error:
                    if time.monotonic() > end:
                        text = " ".join(str(error).split())
                        raise SearchError(f"the storage of the trials cannot be reached: {text[:300]}") from error
                    time.sleep(_PAUSE)

        return call


def without_password(url: str) -> str:
    """A URL to print."""
    head, separator, rest = url.partition("://")
    account, at, place = rest.rpartition("@")
    return f"{head}{separator}{account.partition(':')[0]}{at}{place}" if at else url


def require_optuna() -> None:
    """Raise MissingExtraError without Optuna; its own log lines become rare."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError(
            "a search needs Optuna, which is not installed: pip install edgemeta[search]"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
