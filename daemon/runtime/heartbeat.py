"""By when a thread will be heard of again: how a hang is told from an outage that is being handled.

A thread that begins something says how long it may take, and says so again when it is done. A camera that is away is
no hang: its thread promises its next try. A thread that keeps no promise hangs, in a driver or in a lock.
"""

import threading
import time


class Pulse:
    """The promise of one thread. That thread writes it, any thread may ask. `name` is how people call the thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by = float("inf")
        self._what = ""
        self._lock = threading.Lock()

    def promise(self, what: str, seconds: float) -> None:
        """Be heard of again within `seconds`, however the promise before stood; `what` says what is being done."""
        with self._lock:
            self._by, self._what = time.monotonic() + seconds, what

    def owe(self, what: str, seconds: float) -> None:
        """Like `promise`, but a promise not yet kept stands as it is."""
        with self._lock:
            if self._by == float("inf"):
                self._by, self._what = time.monotonic() + seconds, what

    def rest(self) -> None:
        """Promise nothing: all is done, or it is another thread's turn."""
        with self._lock:
            self._by = float("inf")

    @property
    def trouble(self) -> str | None:
        """What the thread hangs in, in words; None while it keeps its promise."""
        with self._lock:
            late = time.monotonic() - self._by
            return f"{self.name} hangs: {self._what}, {late:.0f} s late" if late > 0 else None
