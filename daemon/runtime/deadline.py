"""A moment by which several steps must all be done, however long each of them takes."""

import time


class Deadline:
    """`seconds` from now. What one step does not use is left to the next."""

    def __init__(self, seconds: float) -> None:
        self._by = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, never less than 0."""
        return max(0.0, self._by - time.monotonic())

    def but(self, reserve: float) -> "Deadline":
        """Return a deadline so many seconds earlier: the time kept for what comes after it."""
        return Deadline(self.left - reserve)
