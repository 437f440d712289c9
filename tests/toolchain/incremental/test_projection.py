"""The nearest power of two: compared with exact rationals over all values of a format, with ties and extremes."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgemeta.toolchain.incremental.projection import Projection
from edgemeta.toolchain.quantize.types import encoded

FLOATS = st.floats(-4, 4, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


def levels(largest: float, bits: int) -> list[Fraction]:
    """0 and the powers 2**n2 .. 2**n1 of the paper, in plain rational arithmetic."""
    top = 0
    while Fraction(2) ** top > Fraction(largest) * 4 / 3:
        top -= 1
    while Fraction(2) ** (top + 1) <= Fraction(largest) * 4 / 3:
        top += 1
    least = top + 1 - 2 ** (bits - 2)
    return [Fraction(0), *(Fraction(2) ** k for k in range(least, top + 1))]


def nearest(weight: float, allowed: list[Fraction]) -> Fraction:
    """Nearest level; at a tie the greater one, but 0 between 0 and the least."""
    magnitude = abs(Fraction(weight))
    best = min(abs(magnitude - level) for level in allowed)
    tied = [level for level in allowed if abs(magnitude - level) == best]
    chosen = tied[0] if tied[0] == 0 else tied[-1]
    return -chosen if weight < 0 else chosen


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
@given(weights=hnp.arrays(np.float32, st.integers(1, 12), elements=FLOATS))
def test_every_weight_becomes_the_nearest_level(bits: int, weights: Any) -> None:
    if not weights.any():
        return
    projection = Projection(torch.from_numpy(weights), bits, "max")
    allowed = levels(float(np.abs(weights).max()), bits)
    assert (projection.least, projection.greatest) == (float(allowed[1]), float(allowed[-1]))
    found = projection(torch.from_numpy(weights)).numpy()
    assert [Fraction(float(v)) for v in found] == [nearest(float(w), allowed) for w in weights]
    assert (projection(torch.from_numpy(found)).numpy() == found).all()  # frozen weights are fixed points


@pytest.mark.parametrize("bits", [3, 4, 5])
def test_ties_go_up_but_to_zero_below_the_least(bits: int) -> None:
    projection = Projection(torch.tensor([1.0]), bits, "max")
    least = projection.least
    halves = torch.tensor([least / 2, -least / 2, 1.5 * least, -1.5 * least, 0.75, np.nextafter(np.float32(0.75), 0)])
    assert projection(halves).tolist() == [0, 0, 2 * least, -2 * least, 1, 0.5]


def test_n1_changes_at_three_quarters_and_stays_when_weights_grow() -> None:
    below = float(np.nextafter(np.float32(0.75), np.float32(0)))
    assert [Projection(torch.tensor([top, 0.1]), 5, "max").greatest for top in (0.75, below, 1.49, 1.5)] == [
        1,
        0.5,
        1,
        2,
    ]
    projection = Projection(torch.tensor([0.75]), 4, "max")
    assert projection(torch.tensor([100.0, -3.0])).tolist() == [1, -1]


def test_the_exponents_of_least_square_error() -> None:
    """Most weights are about 0.1: of two powers 0.125 is one, though the largest weight is 1."""
    weights = torch.tensor([1.0] + 1000 * [0.1])
    projection = Projection(weights, 3, "mse")
    assert (projection.least, projection.greatest) == (0.125, 0.25)
    assert projection(weights)[:2].tolist() == [0.25, 0.125]


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
def test_stored_weights_decode_to_the_same_values(bits: int) -> None:
    rng = np.random.default_rng(bits)
    weights = torch.from_numpy(rng.normal(0, 0.2, (6, 3, 3, 5)).astype(np.float32))
    projection = Projection(weights, bits, "mse")
    values = projection(weights).numpy()
    stored = projection.stored(values)
    assert stored.bits == bits
    assert len(np.unique(values)) <= 2 ** (bits - 1) + 1
    assert (stored.decode() * stored.scale[0] == values).all()
    assert not (stored.codes == 1 << (bits - 1)).any()  # no negative zero


def test_codes_by_hand() -> None:
    assert encoded(np.array([[0, 1, -1, 2, -128, 128]]), 5, 0.25).codes.tolist() == [[0, 1, 17, 2, 24, 8]]
