"""Scales that are powers of two: of least error, by trying all of them."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.layers import TensorType
from edgemeta.toolchain.quantize.power_types import power_type
from edgemeta.toolchain.quantize.ranges import Histogram


def filled(values: Any) -> Histogram:
    histogram = Histogram()
    histogram.add(values.astype(np.float32), float(min(values.min(), 0)), float(max(values.max(), 0)))
    return histogram


def error(values: Any, scale: float, lo: int, hi: int) -> float:
    return float(np.square(np.clip(np.floor(values / scale + 0.5), lo, hi) * scale - values).mean())


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("spread", [0.01, 1.0, 37.0])
@pytest.mark.parametrize("shape", ["normal", "relu", "heavy", "wide"])
def test_the_scale_of_least_error_is_found(spread: float, shape: str, signed: bool) -> None:
    rng = np.random.default_rng(3)
    drawn = {
        "normal": rng.normal(0, spread, 20_000),
        "relu": np.maximum(rng.normal(0, spread, 20_000), 0),
        "heavy": np.append(rng.normal(0, spread, 20_000), 60 * spread),
        "wide": rng.uniform(-spread, 3 * spread, 20_000),
    }[shape]
    found = power_type(filled(drawn), (1, 1, 1), signed=signed)
    assert (found.bits, found.signed, found.zero_point) == (8, signed or shape != "relu", 0)
    assert np.log2(found.scale) % 1 == 0
    best = min(error(drawn, 2.0**exponent, found.lo, found.hi) for exponent in range(-20, 12))
    assert error(drawn, found.scale, found.lo, found.hi) == pytest.approx(best, rel=0.05)


def test_all_values_fit_at_the_ends() -> None:
    assert power_type(filled(np.array([-128.0, 127.0])), (1, 1, 1)) == TensorType((1, 1, 1), scale=1)
    assert power_type(filled(np.array([0.0, 255.0])), (1, 1, 1)) == TensorType((1, 1, 1), signed=False, scale=1)
    assert power_type(filled(np.zeros(9)), (1, 1, 1)).scale == 1
