"""Ranges from calibration images."""

from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.float_model.forward import all_tensors, network_input
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.calibrate import CLIP_RULES, Statistics


def test_greatest_magnitude(every_layer: FloatModel, pixels: Any) -> None:
    statistics = Statistics(every_layer, pixels, ["n0", "out"], batch=7)
    tensors = all_tensors(every_layer, network_input(every_layer, pixels))
    for name in ("n0", "out"):
        assert statistics.greatest[name] == pytest.approx(np.abs(tensors[name]).max(), rel=1e-5)
        assert statistics.clip(name, "minmax", signed=True) == statistics.greatest[name]


def test_clip_rules_remove_outliers(every_layer: FloatModel, pixels: Any) -> None:
    statistics = Statistics(every_layer, pixels, ["n0"])
    rng = np.random.default_rng(0)
    statistics.sample["n0"] = np.append(rng.normal(0, 1, 200_000), 30).astype(np.float32)
    statistics.greatest["n0"] = 30.0
    percentile, least = (statistics.clip("n0", r, signed=True) for r in ("percentile", "mse"))
    assert 3 < percentile < 6
    assert 3 < least < 20


def test_dead_tensor(every_layer: FloatModel, pixels: Any) -> None:
    statistics = Statistics(every_layer, pixels, ["n0"])
    statistics.greatest["n0"] = 0.0
    assert [statistics.clip("n0", r, signed=True) for r in CLIP_RULES] == [1.0, 1.0, 1.0]
