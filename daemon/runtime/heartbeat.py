"""Heartbeat deadlines: tell a hung thread from one that is retrying.

A thread that starts an operation sets a deadline, and sets a new one, or none, when the operation ends. A camera that
is away does not count as hung: its thread sets the deadline of its next try. A thread that misses its deadline hangs,
in a driver or on a lock. Time in which the service was not awake does not count.
"""

import threading

from edgemeta.daemon.runtime.awake import AWAKE


class Heartbeat:
    """The deadline of one thread. That thread sets it, any thread may read it. `name` is for users."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by = float("inf")
        self._what = ""
        self._lock = threading.Lock()

    def expect_within(self, what: str, seconds: float) -> None:
        """Expect the next heartbeat within `seconds`, whatever was expected before; `what` describes the operation."""
        with self._lock:
            self._by, self._what = AWAKE.now() + seconds, what

    def expect_if_idle(self, what: str, seconds: float) -> None:
        """Like `expect_within`, but a deadline that is already set stays."""
        with self._lock:
            if self._by == float("inf"):
                self._by, self._what = AWAKE.now() + seconds, what

    def clear(self) -> None:
        """Expect nothing: all is done, or another thread has to act."""
        with self._lock:
            self._by = float("inf")

    @property
    def overdue(self) -> str | None:
        """Description of the operation that the thread hangs in; None while its deadline has not passed."""
        with self._lock:
            late = AWAKE.now() - self._by
            return f"{self.name} hangs: {self._what}, {late:.0f} s late" if late > 0 else None
