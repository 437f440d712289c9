"""Statistics over images, and the range and type that each rule makes of them."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_reference import all_tensors, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize import parallel, ranges
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.ranges import BINS, RANGE_RULES, Histogram, Statistics, choose_range, tensor_type


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


def histogram_of(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    histogram.add(values.astype(np.float32), float(values.min()), float(values.max()))
    return histogram


def normal(*outliers: float) -> np.ndarray:
    return np.append(np.random.default_rng(0).normal(0, 1, 200_000), outliers)


def square_error(values: np.ndarray, least: float, greatest: float) -> float:
    step = (greatest - least) / 255
    rounded = least + step * np.clip(np.floor((values - least) / step + 0.5), 0, 255)
    counts = np.where((values < least) | (values > greatest), 16, 1)  # errors of clipping do not cancel
    return float((counts * np.square(rounded - values)).mean())


def test_minmax_covers_everything() -> None:
    least, greatest = choose_range(histogram_of(normal(30, -9)), "minmax")
    assert (least, greatest) == (-9, 30)


def test_percentile_and_least_error_leave_outliers_out() -> None:
    values = normal(30)
    for rule, most in (("percentile", 5), ("mse", 29.9)):
        least, greatest = choose_range(histogram_of(values), rule)  # type: ignore[arg-type]
        assert -6 < least < -3
        assert 3 < greatest < most


@pytest.mark.gate("4 s: every range is tried")
def test_the_least_error_is_least() -> None:
    values = normal(9, -7, 8)
    least, greatest = choose_range(histogram_of(values), "mse")
    found = square_error(values, least, greatest)
    tried = [square_error(values, low, high) for low in np.linspace(-7, -2, 40) for high in np.linspace(2, 9, 40)]
    assert found < 1.02 * min(tried)


def test_the_range_before_a_function_is_that_of_the_least_error_after_it() -> None:
    values = np.random.default_rng(3).normal(-20, 15, 100_000)

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    least, greatest = choose_range(histogram_of(values), "mse", relu)
    assert least > 0.1 * values.min()  # far below 0, every value becomes 0
    plain = choose_range(histogram_of(values), "mse")

    def off(low: float, high: float) -> float:
        step = (high - low) / 255
        rounded = low + step * np.clip(np.floor((values - low) / step + 0.5), 0, 255)
        return float(np.square(relu(rounded) - relu(values)).mean())

    assert off(least, greatest) < 0.5 * off(*plain)


@pytest.mark.parametrize("rule", RANGE_RULES)
@pytest.mark.parametrize("values", [np.zeros(5), np.full(9, 3.0), np.full(9, -3.0), np.array([1e-30]), np.ones(1)])
def test_strange_tensors(rule: str, values: np.ndarray) -> None:
    least, greatest = choose_range(histogram_of(values), rule)  # type: ignore[arg-type]
    assert min(values.min(), 0) <= least <= 0 <= greatest <= max(values.max(), 0)
    kind = tensor_type((least, greatest), (1, 1, 1))
    assert kind.scale > 0
    assert kind.lo <= kind.zero_point <= kind.hi


def test_types() -> None:
    assert (tensor_type((0, 5.1), (1, 1, 1)).signed, tensor_type((0, 5.1), (1, 1, 1)).zero_point) == (False, 0)
    even = tensor_type((-1, 1), (1, 1, 1))
    assert (even.signed, even.zero_point) == (True, 0)
    assert even.scale * 127 >= 1
    lopsided = tensor_type((-0.28, 9.0), (1, 1, 1))
    assert (lopsided.signed, lopsided.zero_point) == (False, 8)
    assert (255 - lopsided.zero_point) * lopsided.scale == pytest.approx(9, abs=lopsided.scale)


@pytest.mark.parametrize(("excess", "signed"), [(1.05, True), (1.15, False)])
def test_a_symmetric_type_is_used_while_its_step_is_a_tenth_greater_at_most(excess: float, signed: bool) -> None:
    greatest = 127.0
    kind = tensor_type((greatest - 255 / excess, greatest), (1, 1, 1))
    assert kind.signed == signed
    assert (kind.zero_point == 0) == signed


def test_ranges_reach_and_samples(every_layer: FloatModel, images: Any, pixels: Any) -> None:
    seen: list[tuple[int, int]] = []
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, blocks, images(every_layer), lambda *at: seen.append(at), ["c1"])
    tensors = all_tensors(every_layer, network_input(every_layer, pixels))
    for block in blocks:
        tensor, histogram = tensors[block.after], statistics.histograms[block.after]
        assert histogram.greatest == pytest.approx(max(float(tensor.max()), 0), rel=1e-4)
        assert histogram.least == pytest.approx(min(float(tensor.min()), 0), rel=1e-4)
        np.testing.assert_allclose(statistics.reach[block.after], np.abs(tensor).max((0, 1, 2)), rtol=1e-4)
    rows = tensors["c1"].reshape(-1, tensors["c1"].shape[3])
    (samples,) = statistics.samples.values()
    assert 500 < len(samples) <= 2048
    np.testing.assert_allclose(samples.mean(0), rows.mean(0), atol=0.2 * float(rows.std()))
    np.testing.assert_allclose(statistics.ends["c1"], (rows.min(0), rows.max(0)), rtol=1e-4, atol=1e-5)
    assert seen == [(20, 20)]


def test_statistics_do_not_depend_on_the_shares_of_processes(
    every_layer: FloatModel, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, inputs = blocks_of(every_layer), images(every_layer)
    monkeypatch.setattr(parallel, "processors", lambda: 1)
    one = Statistics(every_layer, blocks, inputs, None, ["c1"])
    monkeypatch.setattr(parallel, "processors", lambda: 3)
    monkeypatch.setattr(ranges, "_TOGETHER", 3)
    shared = Statistics(every_layer, blocks, inputs, None, ["c1"])
    for name, histogram in one.histograms.items():
        other = shared.histograms[name]
        assert (histogram.counts == other.counts).all()
        assert (histogram.centres == other.centres).all()
        assert (histogram.zeros, histogram.least, histogram.greatest) == (other.zeros, other.least, other.greatest)
        np.testing.assert_array_equal(one.ends[name], shared.ends[name])
    np.testing.assert_array_equal(one.samples["c1"], shared.samples["c1"])


def test_infinite_tensors_are_refused(images: Any) -> None:
    weight = np.full((1, 1, 1, 3), 3e38, np.float32)
    model = FloatModel(
        "m",
        (32, 32, 3),
        (Conv("c", "input", weights=weight), Conv("d", "c", weights=weight[..., :1])),
        ("d",),
        Embedding(),
    )
    with pytest.raises(QuantizeError, match="becomes infinite on the calibration images"), np.errstate(all="ignore"):
        Statistics(model, blocks_of(model), images(model))


def test_only_counted_images_make_ranges_and_tensors_of_all_are_kept(every_layer: FloatModel, images: Any) -> None:
    blocks, inputs = blocks_of(every_layer), images(every_layer)
    few = Statistics(every_layer, blocks, inputs.take(range(3)))
    counted = Statistics(every_layer, blocks, inputs, counted=3, keep=lambda _, name: name == "c1")
    assert set(counted.kept) == {(place, "c1") for place in range(20)}
    np.testing.assert_array_equal(counted.kept[7, "c1"], all_tensors(every_layer, inputs.real(inputs[7]))["c1"])
    for name, histogram in few.histograms.items():
        assert (histogram.counts == counted.histograms[name].counts).all()
        assert (few.ends[name][0] == counted.ends[name][0]).all()
