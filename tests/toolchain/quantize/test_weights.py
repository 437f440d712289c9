"""Integers of weights, with their scales."""

import numpy as np

from edgemeta.model.layers import Conv, Dense
from edgemeta.toolchain.quantize.blocks import Block, rounded_to
from edgemeta.toolchain.quantize.weights import LayerWeights, best_scales, rounded


def weights_of(weight: np.ndarray) -> LayerWeights:
    core = Conv("c", "input", weights=weight) if weight.ndim == 4 else Dense("c", "input", weights=weight)
    return LayerWeights([Block(core, None, None, "c", "c")])


def test_a_bias_may_require_a_larger_scale() -> None:
    found = weights_of(np.full((2, 3), 1e-6, np.float32)).integers("c", True, np.array([0.0, 1.0]))
    assert found.scale[0] < 1e-7
    assert found.scale[1] == 1.0
    assert found.values[1].tolist() == [0, 0, 0]


def test_weights_per_channel_are_finer() -> None:
    rng = np.random.default_rng(3)
    weight = (rng.normal(0, 1, (6, 3, 3, 4)) * np.logspace(-2, 0, 6).reshape(6, 1, 1, 1)).astype(np.float32)

    def off(per_channel: bool) -> float:
        found = weights_of(weight).integers("c", per_channel, np.zeros(6))
        assert np.abs(found.values).max() <= 127
        back = found.values * found.scale.reshape(-1, 1, 1, 1)
        return float(np.abs(back / weight - 1).mean())

    assert off(per_channel=True) < off(per_channel=False) / 2


def test_large_layers_are_done_in_pieces_with_the_same_result() -> None:
    weight = np.random.default_rng(5).normal(0, 1, (3, 700_000)).astype(np.float32)
    together = best_scales(weight, True)
    apart = np.concatenate([best_scales(row[None], True) for row in weight])
    assert (together == apart).all()
    values = rounded(weight, together, None).values
    assert (values[1] == rounded(weight[1:2], together[1:2], None).values[0]).all()


def test_integers_are_computed_once_for_a_scale() -> None:
    weights = weights_of(np.random.default_rng(5).normal(0, 1, (3, 5)).astype(np.float32))
    first = weights.integers("c", True, np.zeros(3))
    assert weights.integers("c", True, np.zeros(3)) is first
    assert weights.integers("c", True, np.full(3, 9.0)) is not first
    assert weights.integers("c", False, np.zeros(3)).scale.shape == (1,)


def test_halves_are_rounded_up() -> None:
    weight = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5]], np.float32)
    assert rounded(weight, np.ones(1), None).values.tolist() == [[1, 2, 3, 0, -1, -2]]


def test_weights_that_were_rounded_before_are_exact_whatever_the_channel_holds() -> None:
    rng = np.random.default_rng(8)
    integers = rng.integers(-100, 101, (12, 40)) // 3 ** rng.integers(0, 4, (12, 1))
    integers[0, 0] = 200  # a zero point makes room for more than 127: this channel is rounded once more
    weight = (integers * 0.0123).astype(np.float32)
    step = rounded_to(weight)
    assert step is not None
    np.testing.assert_allclose(step, 0.0123, rtol=1e-6)
    scale = best_scales(weight, per_channel=True)
    np.testing.assert_array_equal(rounded(weight, scale, None).values[1:], integers[1:])
    assert scale[0] > step
    assert rounded_to(rng.normal(0, 1, (4, 9)).astype(np.float32)) is None
    assert rounded_to(np.zeros((4, 9), np.float32)) is None
