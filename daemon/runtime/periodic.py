"""Calls an action periodically in a separate thread; the period can be changed."""

import threading
from collections.abc import Callable

from edgemeta.daemon.runtime.threads import guarded_thread


class Periodic:
    """Calls `action` every `period` seconds until stopped. Any thread may set the period, which restarts the wait."""

    def __init__(
        self, name: str, period: float, action: Callable[[], None], on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._period = period
        self._action = action
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = guarded_thread(name, self._run, on_fatal)

    def start(self) -> None:
        """Start with the first wait."""
        self._thread.start()

    def set_period(self, period: float) -> None:
        """Wait this many seconds from now on."""
        with self._changed:
            if period != self._period:
                self._period = period
                self._changed.notify_all()

    def stop(self, timeout: float) -> None:
        """Stop; a running action has `timeout` seconds to finish."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def _run(self) -> None:
        while self._wait():
            self._action()

    def _wait(self) -> bool:
        """Wait for one whole period; return False to stop."""
        with self._changed:
            while not self._stopping:
                if not self._changed.wait(self._period):  # not woken by a new period or by stop
                    return True
            return False
