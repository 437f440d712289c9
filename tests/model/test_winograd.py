"""All Winograd forms against the plain sum over taps and channels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.model.winograd import (
    F2,
    F2_STRIDED,
    F4,
    Transform,
    convolve,
    most_channels,
    transform_patches,
    transform_weights,
)

ALL = pytest.mark.parametrize("transform", [F2, F4, F2_STRIDED], ids=["F2", "F4", "F2 at stride 2"])


def direct(x: np.ndarray, weights: np.ndarray, stride: int = 1) -> np.ndarray:
    """y[i, j, o] = sum over taps of x[stride i + u - 1, stride j + v - 1] w[o, u, v], in int64."""
    height, width, _ = x.shape
    y = np.zeros((height, width, len(weights)), np.int64)
    for u in range(3):
        for v in range(3):
            for i in range(max(0, 1 - u), min(height, height + 1 - u)):
                for j in range(max(0, 1 - v), min(width, width + 1 - v)):
                    y[i, j] += weights[:, u, v].astype(np.int64) @ x[i + u - 1, j + v - 1].astype(np.int64)
    return y[::stride, ::stride]


@ALL
@settings(max_examples=60)
@given(st.integers(1, 11), st.integers(1, 11), st.integers(1, 20), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_random_input(transform: Transform, height: int, width: int, channels: int, outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (height, width, channels), dtype=np.int32)
    weights = rng.integers(-128, 128, (outputs, 3, 3, channels), dtype=np.int32)
    np.testing.assert_array_equal(convolve(x, weights, transform), direct(x, weights, transform.stride))


@ALL
@pytest.mark.parametrize("channels", [1, 64, 227])
def test_extreme_input(transform: Transform, channels: int) -> None:
    """All lowest, all highest and alternating, up to the channel limit of F(4x4)."""
    shape = (7, 9, channels)
    parity = np.indices(shape).sum(axis=0) % 2
    inputs = [np.full(shape, -128), np.full(shape, 127), np.where(parity, -128, 127), np.where(parity, 127, -128)]
    kernel = (1, 3, 3, channels)
    checkers = np.indices(kernel).sum(axis=0) % 2
    kernels = [np.full(kernel, -128), np.full(kernel, 127), np.where(checkers, -128, 127)]
    for x in inputs:
        for weights in kernels:
            arguments = x.astype(np.int32), weights.astype(np.int32)
            np.testing.assert_array_equal(convolve(*arguments, transform), direct(*arguments, transform.stride))


@ALL
def test_worst_patches(transform: Transform) -> None:
    """Patches and kernels whose signs follow the rows of the matrices drive each transformed entry to its bound."""
    side = transform.edge
    largest_input, largest_weight = 0, 0
    for i in range(side):
        for j in range(side):
            signs = np.sign(np.outer(transform.bt[i], transform.bt[j])).astype(np.int32)
            patch = np.where(signs < 0, -128, 127)[:, :, np.newaxis].astype(np.int32)
            largest_input = max(largest_input, int(np.abs(transform_patches(patch, transform)).max()))
            signs = np.sign(np.outer(transform.g[i], transform.g[j])).astype(np.int32)
            kernel = (signs * -128)[np.newaxis, :, :, np.newaxis].astype(np.int32).clip(-128, 127)
            largest_weight = max(largest_weight, int(np.abs(transform_weights(kernel, transform)).max()))
            inner = patch[1:-1, 1:-1]
            np.testing.assert_array_equal(convolve(inner, kernel, transform), direct(inner, kernel, transform.stride))
    bounds = {F2: (4 * 128, 9 * 128), F4: (100 * 128, 144 * 128), F2_STRIDED: (4 * 128, 4 * 128)}[transform]
    assert largest_input <= bounds[0] < 2**15
    assert largest_weight <= bounds[1] < 2**15
    assert largest_input > 0.98 * bounds[0]
    assert largest_weight > 0.98 * bounds[1]


def test_the_channel_limit_is_sharp() -> None:
    assert most_channels(F4, 128, 128) == 227
    assert most_channels(F4, 128, 127) == 229
    assert most_channels(F2, 128, 128) == 3640
    for channels, is_exact in ((227, True), (228, False)):
        x = np.full((4, 4, channels), -128, np.int32)
        weights = np.full((1, 3, 3, channels), -128, np.int32)
        assert np.array_equal(convolve(x, weights, F4), direct(x, weights)) == is_exact
