"""Time in which the service was awake, for deadlines: what it could not have noticed, nobody has missed.

A thread beats five times a second. Where the next beat is late, because the machine has no processor for the service or
has stopped it, the time beyond `LATE` does not count; while the service is overloaded, time counts for less. Without
beats all time counts.
"""

import math
import time

BEAT = 0.2
"""Seconds between two beats."""

LATE = 2 * BEAT
"""Most seconds from one beat to the next that count."""


class AwakeTime:
    """Seconds by the monotonic clock while the service was awake. Any thread may read; one beats."""

    def __init__(self) -> None:
        now = time.monotonic()
        self._last = now, now, math.inf, 1.0

    def now(self) -> float:
        """Seconds of this clock; only differences mean something."""
        at, awake, most, rate = self._last
        return awake + min(time.monotonic() - at, most) * rate

    @property
    def rate(self) -> float:
        """How much time counts now."""
        return self._last[3]

    def beat(self, rate: float = 1.0) -> None:
        """The service is awake; `rate` says how much the time until the next beat counts."""
        self._last = time.monotonic(), self.now(), LATE, rate

    def end(self) -> None:
        """There are no more beats."""
        self._last = time.monotonic(), self.now(), math.inf, 1.0


AWAKE = AwakeTime()
"""That of this process."""
