"""Calls an action periodically in a separate thread; the period can be changed."""

from collections.abc import Callable
from queue import Empty, SimpleQueue

from edgemeta.daemon.runtime.threads import guarded_thread


class Periodic:
    """Calls `action` every `period` seconds until stopped. Any thread may set the period, which restarts the wait."""

    def __init__(
        self, name: str, period: float, action: Callable[[], None], on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._period = period
        self._action = action
        self._changes = SimpleQueue[None]()  # in C: a Condition takes fifteen calls of Python for each wait
        self._stopping = False
        self._thread = guarded_thread(name, self._run, on_fatal)

    def start(self) -> None:
        """Start with the first wait."""
        self._thread.start()

    def set_period(self, period: float) -> None:
        """Wait this many seconds from now on."""
        if period != self._period:
            self._period = period
            self._changes.put(None)

    def stop(self, timeout: float) -> None:
        """Stop; a running action has `timeout` seconds to finish."""
        self._stopping = True
        self._changes.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while self._wait():
            self._action()

    def _wait(self) -> bool:
        """Wait for one whole period; return False to stop."""
        while not self._stopping:
            try:
                self._changes.get(timeout=self._period)
            except Empty:  # not woken by a new period or by stop
                return True
        return False
