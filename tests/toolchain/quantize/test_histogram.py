"""Histograms that grow with their values."""

import numpy as np
import pytest

from edgemeta.toolchain.quantize.histogram import BINS, Histogram


def filled(*parts: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in parts:
        values = part.astype(np.float32)
        histogram.add(values, float(values.min()), float(values.max()))
    return histogram


def test_every_value_is_in_its_bin_however_the_range_grows() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.normal(0, spread, 1000) for spread in (1e-6, 1e-2, 5.0, 0.3, 700.0)]
    histogram = filled(*parts)
    values = np.concatenate([part.astype(np.float32) for part in parts])
    edges = histogram.centres[0] - histogram.width / 2 + histogram.width * np.arange(BINS + 1)
    # a value that was counted in a narrower bin stays in the wide bin that holds it
    assert (histogram.counts == np.histogram(values, edges)[0]).all()
    assert histogram.total == len(values)
    assert np.ptp(values) / histogram.width >= BINS / 2 - 2


def test_zeros_are_counted_apart() -> None:
    histogram = filled(np.array([0, 0, 0, 1.0, 2.0]))
    assert (histogram.zeros, histogram.total, int(histogram.counts.sum())) == (3, 5, 2)
    assert (histogram.least, histogram.greatest) == (0, 2)


def test_one_sided_values_use_all_bins() -> None:
    histogram = filled(np.linspace(0.01, 100, 5000))
    assert np.count_nonzero(histogram.counts) > BINS / 3


def test_nothing_but_zeros() -> None:
    histogram = filled(np.zeros(9))
    assert (histogram.least, histogram.greatest, histogram.total) == (0, 0, 9)


@pytest.mark.parametrize("spreads", [(1.0, 1.0), (1e-3, 700.0), (700.0, 1e-3)])
def test_a_merged_histogram_has_the_values_of_both_in_their_bins(spreads: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    parts = [rng.normal(0, spread, 3000).astype(np.float32) for spread in spreads]
    first, second = filled(parts[0]), filled(parts[1], np.zeros(7))
    first.merge(second)
    edges = first.centres[0] - first.width / 2 + first.width * np.arange(BINS + 1)
    assert (first.counts == np.histogram(np.concatenate(parts), edges)[0]).all()
    assert (first.zeros, first.total) == (7, 6007)
