"""Latencies of one stage over a period: percentiles by nearest rank."""

import math
import threading
from array import array

from edgemeta.daemon.messages import Stages, StageStats

CAPACITY = 16_384
"""Measurements kept per period; beyond it each new one takes the place of the oldest, and memory stays flat."""


class LatencyWindow:
    """Durations of one stage since the last `drain`, in nanoseconds. Any thread may add."""

    def __init__(self) -> None:
        self._kept = array("q")
        self._count = 0
        self._greatest = 0
        self._lock = threading.Lock()

    def add(self, duration_ns: int) -> None:
        """Take one measurement."""
        with self._lock:
            if len(self._kept) < CAPACITY:
                self._kept.append(duration_ns)
            else:
                self._kept[self._count % CAPACITY] = duration_ns
            self._count += 1
            self._greatest = max(self._greatest, duration_ns)

    def drain(self) -> StageStats:
        """Summarize the period in microseconds and begin the next.

        Percentile p is the ceil(p n / 100)-th smallest of the n newest measurements, at most CAPACITY.
        """
        with self._lock:
            kept, count, greatest = sorted(self._kept), self._count, self._greatest
            self._kept, self._count, self._greatest = array("q"), 0, 0
        if not kept:
            return StageStats(count=0, p50=None, p90=None, p99=None, max=None)
        p50, p90, p99 = (kept[math.ceil(p * len(kept) / 100) - 1] // 1000 for p in (50, 90, 99))
        return StageStats(count=count, p50=p50, p90=p90, p99=p99, max=greatest // 1000)


class StageWindows:
    """One window for each stage of a frame's way."""

    def __init__(self) -> None:
        self._windows = {stage: LatencyWindow() for stage in Stages.model_fields}

    def add(self, stage: str, duration_ns: int) -> None:
        """Take one measurement of a stage."""
        self._windows[stage].add(duration_ns)

    def drain(self) -> Stages:
        """Sum up the period and begin the next."""
        return Stages(**{stage: window.drain() for stage, window in self._windows.items()})
