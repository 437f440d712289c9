"""Latencies of each stage: percentiles over a period by nearest rank, and a histogram since the start."""

import math
import threading
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from edgemeta.daemon.messages.records import Stages, StageStats
from edgemeta.daemon.metrics.histogram import Histogram, HistogramReading

CAPACITY = 16_384
"""Measurements kept per period; beyond it each new one takes the place of the oldest, and memory stays flat."""


@dataclass(frozen=True)
class Period:
    """The measurements of one period: the newest CAPACITY of them, how many there were, and the greatest."""

    kept: "array[int]"
    count: int
    greatest: int

    def summary(self) -> StageStats:
        """Sum up in microseconds; percentile p is the ceil(p n / 100)-th smallest of the n that were kept."""
        if not self.kept:
            return StageStats(count=0, p50=None, p90=None, p99=None, max=None)
        ordered = sorted(self.kept)
        p50, p90, p99 = (ordered[math.ceil(p * len(ordered) / 100) - 1] // 1000 for p in (50, 90, 99))
        return StageStats(count=self.count, p50=p50, p90=p90, p99=p99, max=self.greatest // 1000)


class StageLatency:
    """Durations of one stage, in nanoseconds. Whoever adds and whoever reads hold one lock."""

    def __init__(self) -> None:
        self._kept = array("q")
        self._count = 0
        self._greatest = 0
        self._histogram = Histogram()

    def add(self, duration_ns: int) -> None:
        """Take one measurement."""
        if len(self._kept) < CAPACITY:
            self._kept.append(duration_ns)
        else:
            self._kept[self._count % CAPACITY] = duration_ns
        self._count += 1
        self._greatest = max(self._greatest, duration_ns)
        self._histogram.add(duration_ns)

    def drain(self) -> Period:
        """End the period and begin the next."""
        period = Period(self._kept, self._count, self._greatest)
        self._kept, self._count, self._greatest = array("q"), 0, 0
        return period

    def histogram(self) -> HistogramReading:
        """Tell of all measurements since the start."""
        return self._histogram.read()


class StageLatencies:
    """The stages of a frame's way. Any thread may add and read."""

    def __init__(self) -> None:
        self._stages = {stage: StageLatency() for stage in Stages.model_fields}
        self._lock = threading.Lock()

    def add(self, durations_ns: Mapping[str, int]) -> None:
        """Take one measurement of each of these stages."""
        with self._lock:
            for stage, duration_ns in durations_ns.items():
                self._stages[stage].add(duration_ns)

    def drain(self) -> Stages:
        """Sum up the period and begin the next."""
        with self._lock:
            periods = {name: stage.drain() for name, stage in self._stages.items()}
        return Stages(**{name: period.summary() for name, period in periods.items()})

    def histograms(self) -> dict[str, HistogramReading]:
        """Tell of all measurements since the start, by stage."""
        with self._lock:
            return {name: stage.histogram() for name, stage in self._stages.items()}
