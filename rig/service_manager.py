"""A minimal service manager like systemd: it receives a service's notifications and checks its watchdog."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rig.waiting import TIMEOUT, RigError

EDGEMETA = str(Path(sys.executable).with_name("edgemeta"))


class ServiceManager:
    """Records the messages on NOTIFY_SOCKET, with their monotonic time in seconds."""

    def __init__(self, name: str) -> None:
        self.address = f"@edgemeta-{name}-{os.getpid()}-{time.monotonic_ns()}"
        self.messages: list[tuple[float, str]] = []
        self.fed = float("inf")
        self.changed = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address.replace("@", "\0", 1))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while (message := self._socket.recv(65536)) != b"end":
            with self.changed:
                self.messages.append((time.monotonic(), message.decode()))
                if b"WATCHDOG=1" in message or b"READY=1" in message:
                    self.fed = time.monotonic()
                self.changed.notify_all()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        if not self._thread.is_alive():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ending:
            ending.sendto(b"end", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def environment(self, watchdog: float | None = None) -> dict[str, str]:
        """The service's environment variables; watchdog: timeout in seconds."""
        period = {} if watchdog is None else {"WATCHDOG_USEC": str(round(watchdog * 1e6))}
        return {"NOTIFY_SOCKET": self.address, **period}

    def wait(self, *parts: str, after: int = 0, timeout: float = TIMEOUT) -> int:
        """Wait for a message that has all these parts; return the number of messages up to and including it."""

        def found() -> int | None:
            numbers = range(after, len(self.messages))
            return next((n + 1 for n in numbers if all(part in self.messages[n][1] for part in parts)), None)

        with self.changed:
            self.changed.wait_for(lambda: found() is not None, timeout)
            number = found()
        if number is None:
            raise RigError(f"waited {timeout:g} s for {parts}, got {self.messages[after:]}")
        return number

    def fed_at(self, after: int = 0) -> list[float]:
        """Times at which the watchdog was fed."""
        return [moment for moment, message in list(self.messages)[after:] if message.startswith("WATCHDOG=1\n")]

    @property
    def status(self) -> str:
        """The newest status line."""
        reported = (message.partition("STATUS=")[2] for _, message in reversed(list(self.messages)))
        return next((text.partition("\n")[0] for text in reported if text), "")


def as_installed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python caches compiled modules, like in an installed package."""
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


class ManagedService:
    """`edgemeta run` under a manager. If it does not feed its watchdog (seconds), it is aborted as by systemd."""

    def __init__(self, config: Path, log: Path, watchdog: float | None = None) -> None:
        self.manager = ServiceManager("service")
        self._watchdog = watchdog
        self._log = log
        self.aborted = threading.Event()
        self.began = time.monotonic()
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [EDGEMETA, "run", str(config)],
                env=as_installed(os.environ) | self.manager.environment(watchdog),
                stdout=output,
                stderr=output,
            )
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def ready(self) -> float:
        """Wait until it is ready; return the seconds since its start."""
        try:
            number = self.manager.wait("READY=1")
        except RigError as error:
            self.process.send_signal(signal.SIGABRT)  # its log then shows where every thread is
            self.process.wait(TIMEOUT)
            raise RigError(f"{error}; the service's log:\n{self._log.read_text('utf-8')[-8000:]}") from None
        return self.manager.messages[number - 1][0] - self.began

    def reload(self) -> tuple[float, str]:
        """Send SIGHUP; return the seconds until the result is reported, and the status line with it."""
        before, began = len(self.manager.messages), time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        number = self.manager.wait("READY=1", "reloaded: ", after=self.manager.wait("RELOADING=1", after=before))
        moment, said = self.manager.messages[number - 1]
        return moment - began, said.partition("STATUS=")[2]

    def stop(self) -> tuple[float, int]:
        """Send SIGTERM; return the seconds until the exit, and the exit code."""
        began = time.monotonic()
        self.process.terminate()
        code = self.process.wait(TIMEOUT)
        took = time.monotonic() - began
        self.close()
        return took, code

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Kill it if it still runs, and close the socket."""
        if self.process.poll() is None:
            self.kill()
        self._watcher.join()
        self.manager.close()

    @property
    def cpu(self) -> float:
        """CPU seconds used so far; after a start, about the duration of a start on an idle machine."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def stream_processes(self) -> list[int]:
        """The parent of the processes that read network streams, then those processes; empty without one."""
        return stream_processes(self.process.pid)

    @property
    def holds(self) -> dict[str, int]:
        """Resident memory in KiB, and the numbers of threads, open files and children of the process."""
        process = Path(f"/proc/{self.process.pid}")
        status = (process / "status").read_text("utf-8")
        tasks = list((process / "task").iterdir())
        return {
            "rss_kib": int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]),
            "threads": len(tasks),
            "files": len(list((process / "fd").iterdir())),
            "children": len(_children(self.process.pid)),
        }

    def _watch(self) -> None:
        """Abort the process when its watchdog expires: SIGABRT, SIGCONT in case it is stopped, finally SIGKILL."""
        while self.process.poll() is None:
            time.sleep(0.05)
            if self._watchdog is None or time.monotonic() - self.manager.fed < self._watchdog:
                continue
            self.aborted.set()
            self.process.send_signal(signal.SIGABRT)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(5.0)
            except subprocess.TimeoutExpired:
                self.process.kill()


def stream_processes(service: int) -> list[int]:
    """Return the parent of the processes that read a service's network streams, then those; empty without one."""
    with suppress(FileNotFoundError, ProcessLookupError):  # one has ended meanwhile
        for child in _children(service):
            if b"forkserver_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return [child, *_children(child)]
    return []


def _children(process: int) -> list[int]:
    """Return the children of a process, whichever of its threads started them."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile has none
            found += [int(word) for word in (task / "children").read_text("utf-8").split()]
    return found
