from itertools import product
from typing import Any

import numpy as np
import pytest

from edgemeta.model.layers.bounds import prove_weights
from edgemeta.toolchain.quantize.weight_schemes import Binary, Fixed, PowerOfTwo, weight_scheme

SCHEMES = ("binary", "fixed", "power-of-two")


@pytest.mark.parametrize(("name", "per_channel"), list(product(SCHEMES, (True, False))))
def test_more_bits_leave_less_error(name: Any, per_channel: bool) -> None:
    weight = np.random.default_rng(1).normal(0, 0.2, (4, 3, 3, 5)).astype(np.float32)
    scheme, errors, sizes = weight_scheme(name), [], []
    for width in scheme.widths:
        found = scheme.integers(weight, width, per_channel, np.zeros(4))
        prove_weights(found)
        assert len(found.scale) == (4 if per_channel else 1)
        errors.append(np.square(found.decode() * found.scale.reshape(-1, 1, 1, 1) - weight).sum())
        sizes.append(scheme.size(weight.shape, width))
    if name == "binary" and not per_channel:
        errors.pop()  # int8 has no room for eight bases
    assert errors == sorted(errors, reverse=True)
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("name", SCHEMES)
def test_no_scale_is_below_what_the_bias_asks_for(name: Any) -> None:
    weight = np.random.default_rng(2).normal(0, 0.2, (3, 40)).astype(np.float32)
    scheme = weight_scheme(name)
    for per_channel in (True, False):
        found = scheme.integers(weight, scheme.widths[-1], per_channel, np.array([0.0, 0.0, 0.7]))
        prove_weights(found)
        assert found.scale[-1] >= 0.7


@pytest.mark.parametrize("width", [3, 4, 5])
def test_powers_of_two_are_the_nearest_ones(width: int) -> None:
    weight = np.random.default_rng(3).standard_t(3, (2, 300)).astype(np.float32)
    weight[0, 0] = 0
    found = PowerOfTwo().integers(weight, width, True, np.zeros(2))
    decoded_rows = found.decode() * found.scale[:, None]
    for row, decoded, scale in zip(weight.astype(float), decoded_rows, found.scale, strict=True):
        powers = scale * 2.0 ** np.arange(2 ** (width - 2))
        values = np.concatenate([[0.0], powers, -powers])
        np.testing.assert_allclose(np.abs(row - decoded), np.abs(row - values[:, None]).min(0), atol=1e-12)


def test_fixed_weights_are_symmetric_and_of_their_bits() -> None:
    weight = np.random.default_rng(4).normal(0, 1, (5, 60)).astype(np.float32)
    for width in Fixed().widths:
        found = Fixed().integers(weight, width, True, np.zeros(5))
        assert found.bits == width
        assert np.abs(found.values).max() <= 2 ** (width - 1) - 1


def test_sizes_are_those_of_the_paper() -> None:
    assert Binary().size((64, 3, 3, 16), 4) == 4 * 64 * 144 + 64 * 64 * 4
    assert Fixed().size((64, 144), 4) == 4 * 64 * 144 + 64 * 64


def test_a_decomposition_is_computed_once() -> None:
    scheme, weight = Binary(), np.random.default_rng(5).normal(0, 1, (2, 30)).astype(np.float32)
    assert scheme.decomposition(weight, 3) is scheme.decomposition(weight, 3)
    assert scheme.decomposition(weight, 3) is not scheme.decomposition(weight.copy(), 3)
