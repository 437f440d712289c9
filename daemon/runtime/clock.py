"""Time: monotonic nanoseconds for durations, UTC for timestamps in messages.

Durations and capture times are read from `time.monotonic_ns()`, which clock steps do not affect. A UTC timestamp is
computed from it as late as possible: the moment plus the distance of UTC from the monotonic clock. The kernel slews
both alike, so that distance changes only when the clock is set, as at the boot of a board without a battery.

The kernel knows whether UTC is valid: `adjtimex(2)` with modes 0 returns TIME_ERROR while no time daemon
(ntpd, chrony, systemd-timesyncd) disciplines the clock. If a sandbox forbids that call, the file that
systemd-timesyncd writes after its first synchronization decides; without it the clock counts as not synchronized.
"""

import ctypes
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

NS = 1_000_000_000
"""Nanoseconds in a second."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

TIME_ERROR = 5
"""Return value of adjtimex(2): the clock is not synchronized."""

TIMESYNC_MARK = Path("/run/systemd/timesync/synchronized")
RECHECK_NS = NS

TOLERANCE_NS = NS // 200
"""Changes of the distance up to this are not followed: they are the time between reading one clock and the other."""

SET_NS = NS // 2
"""A change of the distance by more than this counts as setting the clock."""

READINGS = 3
"""How often both clocks are read; the reading that was interrupted least counts."""


class _Timex(ctypes.Structure):
    """Head of the kernel's struct timex; only `modes` is set, the rest receives the result (208 bytes on 64 bit)."""

    _fields_ = (("modes", ctypes.c_uint), ("answer", ctypes.c_long * 64))


def kernel_says_synchronized() -> bool:
    """Return whether the system clock is disciplined now."""
    state = int(ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(_Timex())))
    if state < 0:
        return TIMESYNC_MARK.exists()
    return state != TIME_ERROR


class Clock:
    """UTC timestamps of monotonic times, and the clock-synchronized flag, read once per second. Any thread may call."""

    def __init__(self) -> None:
        self._synchronized = kernel_says_synchronized()
        self._asked_ns = time.monotonic_ns()
        self._distance_ns = _distance_ns()
        self._sets = 0

    @property
    def synchronized(self) -> bool:
        """Whether the system clock is disciplined, at most one second old."""
        now = time.monotonic_ns()
        if now - self._asked_ns >= RECHECK_NS:
            before, self._synchronized = self._synchronized, kernel_says_synchronized()
            self._asked_ns = now
            self._sets += before != self._synchronized
        return self._synchronized

    @property
    def sets(self) -> int:
        """How often the clock was set since this object was made, or became synchronized, or ceased to be."""
        self._follow()
        _ = self.synchronized
        return self._sets

    def utc(self, moment_ns: int) -> datetime:
        """UTC of a moment of `time.monotonic_ns()`, to the microsecond; always the same until the clock is set."""
        self._follow()
        return EPOCH + timedelta(microseconds=(moment_ns + self._distance_ns) // 1000)

    def _follow(self) -> None:
        """Follow the clock if it was set."""
        if abs(time.time_ns() - time.monotonic_ns() - self._distance_ns) <= TOLERANCE_NS:
            return
        distance_ns = _distance_ns()  # this thread may just have been interrupted between both readings
        change = abs(distance_ns - self._distance_ns)
        if change > TOLERANCE_NS:
            self._distance_ns = distance_ns
            self._sets += change > SET_NS


def _distance_ns() -> int:
    """UTC minus monotonic time."""
    readings = []
    for _ in range(READINGS):
        before, utc, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, utc - (before + after) // 2))
    return min(readings)[1]
