"""Bit planes give back the integers of every encoding that has some."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.popc.planes import WeightPlanes, planes_of
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights, Weights

SHAPE = (5, 3, 2, 7)
RNG = np.random.default_rng(0)


def fixed(values: NDArray[np.int64], bits: int = 8) -> FixedWeights:
    return FixedWeights(np.asarray(values).astype(np.int8), bits, np.ones(1))


def binary(bases: int, reach: int) -> BinaryWeights:
    basis = (2 * RNG.integers(0, 2, (bases, *SHAPE)) - 1).astype(np.int8)
    factors = RNG.integers(-reach, reach + 1, (SHAPE[0], bases)).astype(np.int16)
    return BinaryWeights(basis, factors, np.ones(1))


def decoded(planes: WeightPlanes) -> NDArray[np.int64]:
    shape = (-1, *[1] * (planes.planes.ndim - 2))
    found: NDArray[np.int64] = np.broadcast_to(planes.totals.reshape(shape), planes.planes.shape[1:]).astype(np.int64)
    for base, plane in enumerate(planes.planes):
        found = found + planes.factors[:, base].reshape(shape) * plane
    return found


@pytest.mark.parametrize(
    ("weights", "bases", "has_totals"),
    [
        (fixed(RNG.integers(-2, 2, SHAPE)), 2, False),
        (fixed(RNG.integers(-1, 2, SHAPE)), 2, False),
        (fixed(RNG.integers(-1, 1, SHAPE), 1), 1, False),
        (fixed(2 * RNG.integers(0, 2, SHAPE) - 1), 1, True),
        (fixed(100 * RNG.integers(0, 2, SHAPE)), 1, False),
        (fixed(np.where(RNG.integers(0, 2, SHAPE), -128, 127)), 1, True),
        (fixed(np.zeros(SHAPE, np.int64)), 1, False),
        (fixed(np.full(SHAPE, 1)), 1, False),
        (fixed(np.full(SHAPE, -7)), 1, False),
        (PowerOfTwoWeights(RNG.integers(0, 2, SHAPE).astype(np.uint8) * 3, 2, np.ones(1)), 1, False),
        (PowerOfTwoWeights(RNG.choice([0, 1, 3], SHAPE).astype(np.uint8), 2, np.ones(1)), 2, False),
        (binary(1, 1), 1, True),
        (binary(3, 200), 3, True),
        (binary(8, 32767), 8, True),
    ],
)
def test_planes_are_the_weights(weights: Weights, bases: int, has_totals: bool) -> None:
    planes = planes_of(weights)
    assert planes is not None
    assert len(planes.planes) == planes.factors.shape[1] == bases
    assert planes.has_totals == has_totals
    np.testing.assert_array_equal(decoded(planes), weights.decode())


@pytest.mark.parametrize("make", [lambda: fixed(RNG.integers(-4, 4, SHAPE)), lambda: fixed(RNG.integers(0, 3, SHAPE))])
def test_weights_of_more_bits_have_none(make: Callable[[], Weights]) -> None:
    assert planes_of(make()) is None
