"""Latency percentiles against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.messages.stats import Stages
from edgemeta.daemon.metrics.latency import BOUNDS_NS, CAPACITY, Histogram, StageLatencies, StageLatency


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


@given(durations=st.lists(st.one_of(st.sampled_from(BOUNDS_NS), st.integers(0, 2 * BOUNDS_NS[-1]))))
def test_each_bound_counts_all_durations_no_longer_than_it(durations: list[int]) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)
    reading = histogram.read()
    assert reading.up_to == tuple(sum(duration <= bound for duration in durations) for bound in BOUNDS_NS)
    assert (reading.count, reading.sum_ns) == (len(durations), sum(durations))


def test_bounds_are_whole_nanoseconds_from_ten_microseconds_to_a_second() -> None:
    assert all(isinstance(bound, int) for bound in BOUNDS_NS)
    assert (BOUNDS_NS[0], BOUNDS_NS[-1]) == (10_000, 10**9)
    assert list(BOUNDS_NS) == sorted(set(BOUNDS_NS))


def test_the_end_of_a_period_leaves_the_histogram_as_it_is() -> None:
    latencies = StageLatencies()
    latencies.add({"inference": 56_000})
    latencies.drain()
    latencies.add({"inference": 44_000, "encode": 1})
    histograms = latencies.histograms()
    assert list(histograms) == list(Stages.model_fields)
    assert (histograms["inference"].count, histograms["inference"].sum_ns) == (2, 100_000)
    assert histograms["publish"].count == 0
