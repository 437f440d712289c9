"""Latencies of each stage: percentiles of a period (nearest rank), and a histogram since the start."""

import math
import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from edgemeta.daemon.messages.stats import Stages, StageStats

CAPACITY = 16_384
"""Measurements kept per period; further ones replace the oldest, so that memory is bounded."""

AT_ONCE = 128
"""Measurements that are given to their stages together."""

BOUNDS_NS = (*(step * 10**power for power in range(3, 8) for step in (10, 25, 50)), 10**9)
"""10 µs, 25 µs, 50 µs, 100 µs ... 1 s, in nanoseconds."""


@dataclass(frozen=True)
class HistogramReading:
    """A histogram at one moment.

    up_to: for each of BOUNDS_NS, the number of durations that are not longer. count: all of them. sum_ns: their sum.
    """

    up_to: tuple[int, ...]
    count: int
    sum_ns: int


class Histogram:
    """Counts durations since the start, from which Prometheus computes percentiles.

    Unlike the percentiles of a stats message, which are those of one period, these counts only grow: their reader
    chooses the period, and may add them up over devices. Callers of both methods must hold the same lock.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_NS) + 1)
        self._sum_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one duration."""
        self._counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self._sum_ns += duration_ns

    def read(self) -> HistogramReading:
        """Return the present counts."""
        *up_to, count = accumulate(self._counts)
        return HistogramReading(tuple(up_to), count, self._sum_ns)


@dataclass(frozen=True)
class Period:
    """The measurements of one period: the newest CAPACITY of them, the number and the maximum of all."""

    kept: "array[int]"
    count: int
    greatest: int

    def summary(self) -> StageStats:
        """Return percentiles in microseconds; percentile p is the ceil(p n / 100)-th smallest of the n kept."""
        if not self.kept:
            return StageStats(count=0, p50=None, p90=None, p99=None, max=None)
        ordered = sorted(self.kept)
        p50, p90, p99 = (ordered[math.ceil(p * len(ordered) / 100) - 1] // 1000 for p in (50, 90, 99))
        return StageStats(count=self.count, p50=p50, p90=p90, p99=p99, max=self.greatest // 1000)


class StageLatency:
    """Durations of one stage, in nanoseconds. Callers of all methods must hold the same lock."""

    def __init__(self) -> None:
        self._kept = array("q")
        self._count = 0
        self._greatest = 0
        self._histogram = Histogram()

    def add(self, duration_ns: int) -> None:
        """Add one measurement."""
        if len(self._kept) < CAPACITY:
            self._kept.append(duration_ns)
        else:
            self._kept[self._count % CAPACITY] = duration_ns
        self._count += 1
        self._greatest = max(self._greatest, duration_ns)
        self._histogram.add(duration_ns)

    def drain(self) -> Period:
        """End the period, and start the next one."""
        period = Period(self._kept, self._count, self._greatest)
        self._kept, self._count, self._greatest = array("q"), 0, 0
        return period

    def histogram(self) -> HistogramReading:
        """Return the histogram of all measurements since the start."""
        return self._histogram.read()


class StageLatencies:
    """Latencies of the stages of a frame. Any thread may add and read."""

    def __init__(self) -> None:
        self._stages = {stage: StageLatency() for stage in Stages.model_fields}
        self._new: list[Mapping[str, int]] = []
        self._lock = threading.Lock()

    def add(self, durations_ns: Mapping[str, int]) -> None:
        """Add one measurement for each of these stages; the mapping stays as it is."""
        with self._lock:
            self._new.append(durations_ns)
            if len(self._new) == AT_ONCE:
                self._sort()

    def _sort(self) -> None:
        """Give the new measurements to their stages, with the lock held: together, while the caches are warm."""
        for durations_ns in self._new:
            for stage, duration_ns in durations_ns.items():
                self._stages[stage].add(duration_ns)
        self._new.clear()

    def drain(self) -> Stages:
        """Return the summaries of the period, and start the next one."""
        with self._lock:
            self._sort()
            periods = {name: stage.drain() for name, stage in self._stages.items()}
        return Stages(**{name: period.summary() for name, period in periods.items()})

    def histograms(self) -> dict[str, HistogramReading]:
        """Return the histograms of all measurements since the start, by stage."""
        with self._lock:
            self._sort()
            return {name: stage.histogram() for name, stage in self._stages.items()}
