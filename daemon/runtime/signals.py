"""Lets the main thread wait for SIGTERM, SIGINT and SIGHUP, without locks inside a signal handler."""

import signal
import socket
from types import FrameType, TracebackType

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
RELOAD = signal.SIGHUP.name


class Signals:
    """While entered, these signals end `wait` instead of the process. Main thread only, except `interrupt`.

    The handlers do nothing: Python writes the signal's number into a socket (`signal.set_wakeup_fd`) that `wait` reads.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def __enter__(self) -> "Signals":
        self._fd_before = signal.set_wakeup_fd(self._writer.fileno())
        self._before = {number: signal.signal(number, _noted) for number in HANDLED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._reader.close()
        self._writer.close()

    def interrupt(self) -> None:
        """End `wait` from any thread, as a signal would."""
        self._writer.send(b"\0")

    def wait(self) -> str:
        """Wait for a signal and return its name, or "" after `interrupt`."""
        (number,) = self._reader.recv(1)
        return signal.Signals(number).name if number else ""


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; a handler must exist for the wakeup descriptor to be written."""
