"""A PostgreSQL server of our own, from Debian's package, that can be killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from rig.waiting import RigError, free_port, wait_until

USER = "searcher"


class Database:
    """PostgreSQL with an empty database on a free loopback port, in a temporary folder.

    As root it runs as the package's own user. Raises RigError where the package is missing.
    """

    def __init__(self) -> None:
        self._programs = _programs()
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="edgemeta-database-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user, self._user)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        initdb = [self._programs / "initdb", "-D", self._folder / "data", "-A", "trust", "-U", USER, "--no-sync"]
        self._run(initdb)
        self.start()

    @property
    def url(self) -> str:
        """The database for SQLAlchemy and psycopg."""
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it takes connections. Raises RigError with its last words if it ends."""
        options = ["-D", self._folder / "data", "-k", self._folder, "-p", self._port, "-h", "127.0.0.1"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(each) for each in (self._programs / "postgres", *options)],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd="/",
                start_new_session=True,
            )
        wait_until(self._is_ready, "PostgreSQL to take connections")

    def kill(self) -> None:
        """End the server and all processes that it has started by SIGKILL; returns when none is left.

        As long as one holds the shared memory, a new server refuses to start.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            wait_until(self._no_children, "PostgreSQL's processes to end")

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _no_children(self) -> bool:
        """Whether no process of the server is left, those that work in its data folder; kills those that are."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if place.readlink() == self._folder / "data":
                    found.append(int(place.parent.name))
        for child in found:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return not found

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            words = (self._folder / "log").read_text(errors="replace").split("\n")[-4:]
            raise RigError(f"PostgreSQL ended: {' '.join(' '.join(words).split())}")
        command = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", self._port, "-U", USER]
        return subprocess.run([str(each) for each in command], check=False).returncode == 0

    def _run(self, command: list[object]) -> None:
        done = subprocess.run(
            [str(each) for each in command], capture_output=True, text=True, user=self._user, cwd="/", check=False
        )
        if done.returncode != 0:
            raise RigError(f"{command[0]} failed: {' '.join(done.stderr.split())}")


def _programs() -> Path:
    """The folder of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    if not found:
        raise RigError("PostgreSQL is not installed (Debian package postgresql)")
    return found[-1]
