"""How often durations fell between fixed bounds since the start: what Prometheus makes percentiles of.

Unlike the percentiles of a stats message, which stand for one period, these counts only grow: whoever reads them
chooses the period, and may add them up over devices.
"""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

BOUNDS_NS = (*(step * 10**power for power in range(3, 8) for step in (10, 25, 50)), 10**9)
"""10 µs, 25 µs, 50 µs, 100 µs ... 1 s, in nanoseconds."""


@dataclass(frozen=True)
class HistogramReading:
    """A histogram at one moment.

    up_to: for each of BOUNDS_NS, how many durations were no longer. count: all of them. sum_ns: their sum.
    """

    up_to: tuple[int, ...]
    count: int
    sum_ns: int


class Histogram:
    """Counts durations. Whoever adds and whoever reads hold one lock."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_NS) + 1)
        self._sum_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one duration."""
        self._counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self._sum_ns += duration_ns

    def read(self) -> HistogramReading:
        """Tell how it stands."""
        *up_to, count = accumulate(self._counts)
        return HistogramReading(tuple(up_to), count, self._sum_ns)
