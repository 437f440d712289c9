"""Types of tensors, and weights, as scheme auto chooses them."""

from typing import Any

import numpy as np

from edgemeta.toolchain.float_model.graph import FloatModel, check
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.choices import Choice, quantize_weights, tensor_types


def test_types_depend_on_the_range_of_a_tensor(every_layer: FloatModel, pixels: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, "minmax")
    assert {n for n, t in types.items() if not t.signed} == {"c0", "a1", "m2", "d6"}
    assert all(t.zero_point == 0 for t in types.values())
    assert types["c0"].scale == statistics.greatest["r0"] / 255
    assert types["c1"].scale == statistics.greatest["c1"] / 127
    assert types["m2"].scale == types["a1"].scale
    assert types["u2"].scale == types["c2"].scale
    widest = max(types["a1"].scale * 255, types["u2"].scale * 128)
    assert types["j3"].scale == widest / 127


def test_names_of_choices() -> None:
    assert Choice("mse", "table").text == "table, mse"
    full = Choice("minmax", "multiplier", 0.5, {"c": np.eye(1)[None]}, {"c": np.zeros(1)})
    assert full.text == "multiplier, minmax, equalized 0.5, error feedback, bias corrected"


def test_a_bias_may_require_a_larger_scale() -> None:
    found = quantize_weights(np.full((2, 3), 1e-6, np.float32), True, np.array([0.0, 1.0]))
    assert found.scale[0] < 1e-7
    assert found.scale[1] == 1.0
    assert found.values[1].tolist() == [0, 0, 0]


def test_weights_per_channel_are_finer() -> None:
    rng = np.random.default_rng(3)
    weight = (rng.normal(0, 1, (6, 3, 3, 4)) * np.logspace(-2, 0, 6).reshape(6, 1, 1, 1)).astype(np.float32)

    def off(per_channel: bool) -> float:
        found = quantize_weights(weight, per_channel, np.zeros(6))
        assert np.abs(found.values).max() <= 127
        back = found.values * found.scale.reshape(-1, 1, 1, 1)
        return float(np.abs(back / weight - 1).mean())

    assert off(per_channel=True) < off(per_channel=False) / 2
