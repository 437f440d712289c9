"""The files of an outbox and the disk space that they hold: the database, and its write-ahead log.

The blocks of both are allocated before SQLite writes to them, so that only growing needs room on the disk. Messages in
the file can be read and removed on a full disk. docs/decisions/0018 has the reasons.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder

LOG_BYTES = 1 << 20
"""Size of the write-ahead log: allocated at once, and restored where one large message made it longer."""

PRIVATE = 0o600
"""Mode of the files, whatever the umask: messages say what cameras see."""

_HEADER = 100
_LOG_HEADER = 32
_SHARED_LOCK = (510, 0x40000002)
"""Length and offset of the bytes by which SQLite locks a database for reading."""


def file_of(config: Config) -> Path | None:
    """Return the outbox file of the device; None if the config keeps messages in memory only."""
    if config.mqtt.outbox.max_disk_mb == 0:
        return None
    return data_folder(config.data_folder) / f"outbox-{config.device}.sqlite3"


class OutboxFiles:
    """The database at `path`, created if there is none, open until `close`; `read_only` if its disk is.

    The descriptor is opened before SQLite opens the file and must be closed after SQLite has closed it: closing any
    descriptor of a file ends all locks that the process holds on it (POSIX).
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError, also where another process holds a file on a read-only disk."""
        self.path = path
        self.log = path.with_name(f"{path.name}-wal")
        self._spare = path.with_name(f"{path.name}-spare")
        self.read_only = False
        try:
            self._descriptor = self._open_for_writing(path)
        except OSError as error:
            if error.errno != errno.EROFS or not path.exists():
                raise
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self.read_only = True
        try:
            self._make_private()
            self._prepare()
        except OSError:
            self.close()
            raise

    @staticmethod
    def _open_for_writing(path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE)  # a FIFO must not block

    def _make_private(self) -> None:
        """Let only the owner read it, also where an older version created it; SQLite gives its log the same mode."""
        mode = os.fstat(self._descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if not self.read_only and stat.S_IMODE(mode) != PRIVATE:
            with suppress(PermissionError):  # of another user, who decides
                os.fchmod(self._descriptor, PRIVATE)

    def _prepare(self) -> None:
        if self.read_only:  # SQLite does not lock, see `address`
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, *_SHARED_LOCK)
        elif self.log.exists():
            self._spare.unlink(missing_ok=True)
        elif self._spare.exists():  # the process ended between two steps of `log_kept`
            self._use_spare()

    @property
    def address(self) -> str:
        """The URI by which SQLite opens the database.

        On a read-only disk, a database with a write-ahead log is read by a VFS without locks, as SQLite would take a
        lock for writing; one without a log is complete by itself (`immutable`).
        """
        uri = self.path.absolute().as_uri()
        if not self.read_only:
            return uri
        return f"{uri}?mode=ro&{'vfs=unix-none' if self.log.exists() else 'immutable=1'}"

    @property
    def header(self) -> bytes:
        """The first bytes of the database, which say what it is; empty for a new file. Raises OSError."""
        return os.pread(self._descriptor, _HEADER, 0)

    @property
    def size(self) -> int:
        """Bytes of the database for which blocks are allocated."""
        return os.fstat(self._descriptor).st_size

    @property
    def log_size(self) -> int:
        """Bytes of the write-ahead log; 0 if there is none."""
        try:
            return self.log.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def gone(self) -> bool:
        """Whether the database is no longer at its path: it was removed, moved or replaced. Raises OSError."""
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        return not os.path.samestat(there, os.fstat(self._descriptor))

    def reserve(self, size: int) -> None:
        """Allocate blocks for a database of `size` bytes and for its log. Raises OSError if the disk is full."""
        held = self.size
        if held < size:
            try:
                os.posix_fallocate(self._descriptor, held, size - held)
            except OSError:
                os.ftruncate(self._descriptor, held)  # some file systems keep what they could allocate
                raise
        if self.log_size < LOG_BYTES:
            self.reserve_log()

    def reserve_log(self) -> None:
        """Allocate blocks for the log, which SQLite has created. Raises OSError."""
        descriptor = os.open(self.log, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, LOG_BYTES)
        finally:
            os.close(descriptor)

    @contextmanager
    def log_kept(self) -> Iterator[None]:
        """Keep the log's blocks, under a second name, while SQLite closes the database and removes the log."""
        linked = False
        with suppress(OSError):  # no hard links on this file system: the next start creates a new log
            if not self.read_only and not self.gone:
                os.link(self.log, self._spare)
                linked = True
        yield
        if linked:
            with suppress(OSError):  # the next start finishes it
                self._prepare()

    def _use_spare(self) -> None:
        """Make the spare file the log, without its content, which is in the database."""
        descriptor = os.open(self._spare, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, bytes(_LOG_HEADER), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._spare.rename(self.log)

    def close(self) -> None:
        """Close the database file, once: its descriptor may soon be another file's."""
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # it is closed all the same
            os.close(descriptor)
