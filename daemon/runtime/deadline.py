"""A common deadline for several steps."""

import time


class Deadline:
    """A time `seconds` from now. Time that one step does not use is available to the next."""

    def __init__(self, seconds: float) -> None:
        self._by = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, never less than 0."""
        return max(0.0, self._by - time.monotonic())

    def minus(self, reserve: float) -> "Deadline":
        """Return a deadline `reserve` seconds earlier, to reserve time for later steps."""
        return Deadline(self.left - reserve)
