"""Latency percentiles against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.metrics.latency import CAPACITY, StageLatency


@given(durations=st.lists(st.integers(0, 10**10), min_size=1, max_size=300))
def test_percentiles_are_numpys_by_inverted_distribution(durations: list[int]) -> None:
    window = StageLatency()
    for duration in durations:
        window.add(duration)
    stats = window.drain().summary()
    assert stats.count == len(durations)
    assert stats.max == max(durations) // 1000
    for percent, value in ((50, stats.p50), (90, stats.p90), (99, stats.p99)):
        assert value == int(np.percentile(durations, percent, method="inverted_cdf")) // 1000


def test_a_period_without_measurements_has_no_numbers() -> None:
    window = StageLatency()
    window.add(5000)
    window.drain()
    assert window.drain().summary().model_dump() == {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}


def test_a_long_period_keeps_the_newest_measurements_and_the_true_maximum() -> None:
    window = StageLatency()
    window.add(10**9)
    for _ in range(CAPACITY):
        window.add(2000)
    stats = window.drain().summary()
    assert (stats.count, stats.p50, stats.p99, stats.max) == (CAPACITY + 1, 2, 2, 10**6)
