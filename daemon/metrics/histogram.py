"""Histograms of durations since the start, from which Prometheus computes percentiles.

Unlike the percentiles of a stats message, which are those of one period, these counts only grow: their reader chooses
the period, and may add them up over devices.
"""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

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
    """Counts durations. Callers of both methods must hold the same lock."""

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
