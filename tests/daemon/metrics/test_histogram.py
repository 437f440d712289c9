"""Histograms of durations against their definition."""

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.messages.stats import Stages
from edgemeta.daemon.metrics.histogram import BOUNDS_NS, Histogram
from edgemeta.daemon.metrics.latency import StageLatencies


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
