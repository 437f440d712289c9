"""A partly frozen network: frozen weights do not move by a bit, released ones do and come back to the grid."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgemeta.toolchain.incremental.network import FrozenStep, PartlyFrozen, Projection
from edgemeta.toolchain.quantize.types import encoded
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.student import nesterov
from tests.toolchain.incremental.frozen import frozen_share

FLOATS = st.floats(-4, 4, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


@pytest.fixture
def network() -> PartlyFrozen:
    torch.manual_seed(5)
    return PartlyFrozen(build(Design(width=0.25)), 4, "max")


def values(network: PartlyFrozen) -> list[Any]:
    return [weight.detach().clone() for weight, _ in network.held]


def masks(network: PartlyFrozen) -> list[Any]:
    return [mask.clone() for _, mask in network.held]


def train(network: PartlyFrozen, steps: int = 3) -> None:
    step = FrozenStep(nesterov(network, 0.1, 0.9, 1e-2), network)
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    network.train()
    for _ in range(steps):
        step.take(network(x).square().mean() + network(x).logsumexp(1).mean())


def on_grid(network: PartlyFrozen) -> list[Any]:
    pairs = zip(network.held, network.projections.values(), strict=True)
    return [projection(weight) == weight for (weight, _), projection in pairs]


def test_every_convolution_and_the_dense_layer_is_quantized(network: PartlyFrozen) -> None:
    assert list(network.projections) == [*(f"conv{number}" for number in range(9)), "fc"]
    assert frozen_share(network) == 0


@pytest.mark.parametrize("rule", ["error", "magnitude", "random"])
def test_frozen_weights_never_move_and_the_others_do(network: PartlyFrozen, rule: Any) -> None:
    rng = np.random.default_rng(2)
    for share in (0.2, 0.5, 0.7):
        network.freeze(share, rule, rng)
        assert frozen_share(network) == pytest.approx(share, abs=0.01)
        before, held = values(network), masks(network)
        train(network)
        for old, mask, (weight, _) in zip(before, held, network.held, strict=True):
            assert torch.equal(old[mask], weight[mask])
            assert (old[~mask] != weight[~mask]).float().mean() > 0.9
        assert all(grid[mask].all() for grid, mask in zip(on_grid(network), held, strict=True))
    network.freeze(1.0, rule, rng)
    assert all(grid.all() for grid in on_grid(network))


def test_released_weights_are_trained_for_a_while_and_frozen_again(network: PartlyFrozen) -> None:
    network.freeze(1.0, "error", np.random.default_rng(1))
    before = values(network)
    network.release(0.3, np.random.default_rng(2))
    free = [~mask for mask in masks(network)]
    assert frozen_share(network) == pytest.approx(0.7, abs=0.03)
    train(network)
    for old, mask, (weight, _) in zip(before, free, network.held, strict=True):
        assert torch.equal(old[~mask], weight[~mask])
        assert (old[mask] != weight[mask]).float().mean() > 0.9
    network.refreeze()
    assert frozen_share(network) == 1
    assert all(grid.all() for grid in on_grid(network))
    assert any((old != weight).any() for old, (weight, _) in zip(before, network.held, strict=True))


def test_the_error_rule_freezes_the_largest_errors(network: PartlyFrozen) -> None:
    errors = [
        (projection(weight) - weight).abs()
        for (weight, _), projection in zip(network.held, network.projections.values(), strict=True)
    ]
    network.freeze(0.2, "error", np.random.default_rng(0))
    for error, mask in zip(errors, masks(network), strict=True):
        assert error[mask].min() >= error[~mask].max()


def test_masks_are_part_of_the_state(network: PartlyFrozen) -> None:
    network.freeze(0.5, "error", np.random.default_rng(0))
    other = PartlyFrozen(build(Design(width=0.25)), 4, "max")
    other.load_state_dict(network.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(masks(network), masks(other), strict=True))


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
    least = float(projection.least[0])
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
