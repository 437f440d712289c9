"""Time: monotonic nanoseconds for durations, UTC for timestamps in messages.

Durations and capture times are read from `time.monotonic_ns()`, which clock steps do not affect. A UTC timestamp is
computed from it as late as possible: UTC now minus the monotonic time since the capture.

The kernel knows whether UTC is valid: `adjtimex(2)` with modes 0 returns TIME_ERROR while no time daemon
(ntpd, chrony, systemd-timesyncd) disciplines the clock. If a sandbox forbids that call, the file that
systemd-timesyncd writes after its first synchronization decides; without it the clock counts as not synchronized.
"""

import ctypes
import time
from datetime import datetime, timezone
from pathlib import Path

NS = 1_000_000_000
"""Nanoseconds in a second."""

TIME_ERROR = 5
"""Return value of adjtimex(2): the clock is not synchronized."""

TIMESYNC_MARK = Path("/run/systemd/timesync/synchronized")
RECHECK_NS = NS


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
    """UTC timestamps of monotonic times, and the clock-synchronized flag, read once per second."""

    def __init__(self) -> None:
        self._synchronized = kernel_says_synchronized()
        self._asked_ns = time.monotonic_ns()

    @property
    def synchronized(self) -> bool:
        """Whether the system clock is disciplined, at most one second old."""
        now = time.monotonic_ns()
        if now - self._asked_ns >= RECHECK_NS:
            self._synchronized = kernel_says_synchronized()
            self._asked_ns = now
        return self._synchronized

    def utc(self, moment_ns: int) -> datetime:
        """UTC of a moment of `time.monotonic_ns()`, to the microsecond."""
        utc_ns = time.time_ns() - (time.monotonic_ns() - moment_ns)
        seconds, nanoseconds = divmod(utc_ns, NS)
        return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=nanoseconds // 1000)
