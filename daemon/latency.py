"""Latencies of each stage: percentiles over a period by nearest rank, and a histogram since the start."""

import math
import threading
from array import array

from edgemeta.daemon.histogram import Histogram, HistogramReading
from edgemeta.daemon.messages import Stages, StageStats

CAPACITY = 16_384
"""Measurements kept per period; beyond it each new one takes the place of the oldest, and memory stays flat."""


class StageLatency:
    """Durations of one stage, in nanoseconds. Any thread may add."""

    def __init__(self) -> None:
        self._kept = array("q")
        self._count = 0
        self._greatest = 0
        self._histogram = Histogram()
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
            self._histogram.add(duration_ns)

    def drain(self) -> StageStats:
        """Summarize the period since the last `drain` in microseconds and begin the next.

        Percentile p is the ceil(p n / 100)-th smallest of the n newest measurements, at most CAPACITY.
        """
        with self._lock:
            kept, count, greatest = sorted(self._kept), self._count, self._greatest
            self._kept, self._count, self._greatest = array("q"), 0, 0
        if not kept:
            return StageStats(count=0, p50=None, p90=None, p99=None, max=None)
        p50, p90, p99 = (kept[math.ceil(p * len(kept) / 100) - 1] // 1000 for p in (50, 90, 99))
        return StageStats(count=count, p50=p50, p90=p90, p99=p99, max=greatest // 1000)

    def histogram(self) -> HistogramReading:
        """Tell of all measurements since the start."""
        with self._lock:
            return self._histogram.read()


class StageLatencies:
    """The stages of a frame's way."""

    def __init__(self) -> None:
        self._stages = {stage: StageLatency() for stage in Stages.model_fields}

    def add(self, stage: str, duration_ns: int) -> None:
        """Take one measurement of a stage."""
        self._stages[stage].add(duration_ns)

    def drain(self) -> Stages:
        """Sum up the period and begin the next."""
        return Stages(**{name: stage.drain() for name, stage in self._stages.items()})

    def histograms(self) -> dict[str, HistogramReading]:
        """Tell of all measurements since the start, by stage."""
        return {name: stage.histogram() for name, stage in self._stages.items()}
