"""Time: monotonic nanoseconds for every duration, UTC only for telling people when.

Durations and the moment of capture are read from `time.monotonic_ns()`, which no clock step touches. A UTC stamp is
made from it as late as possible: UTC now minus the monotonic time gone by since the capture.

Whether UTC can be believed is asked of the kernel: `adjtimex(2)` with modes 0 answers TIME_ERROR while no time daemon
(ntpd, chrony, systemd-timesyncd) disciplines the clock. Where a sandbox forbids that call, the file that
systemd-timesyncd writes after its first answer decides, and without it the clock counts as not synchronized.
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
    """Head of the kernel's struct timex; only `modes` is set, the rest is room for the answer (208 bytes on 64 bit)."""

    _fields_ = (("modes", ctypes.c_uint), ("answer", ctypes.c_long * 64))


def kernel_says_synchronized() -> bool:
    """Ask the system now whether its clock is disciplined."""
    state = int(ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(_Timex())))
    if state < 0:
        return TIMESYNC_MARK.exists()
    return state != TIME_ERROR


class Clock:
    """UTC stamps for monotonic moments, and the clock-synchronized flag, asked again once a second."""

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
