"""A partly frozen network: frozen weights do not move by a bit, released ones do and come back to the grid."""

from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.toolchain.incremental.network import FrozenStep, PartlyFrozen
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.student import nesterov


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
    assert network.frozen_share() == 0


@pytest.mark.parametrize("rule", ["error", "magnitude", "random"])
def test_frozen_weights_never_move_and_the_others_do(network: PartlyFrozen, rule: Any) -> None:
    rng = np.random.default_rng(2)
    for share in (0.2, 0.5, 0.7):
        network.freeze(share, rule, rng)
        assert network.frozen_share() == pytest.approx(share, abs=0.01)
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
    assert network.frozen_share() == pytest.approx(0.7, abs=0.03)
    train(network)
    for old, mask, (weight, _) in zip(before, free, network.held, strict=True):
        assert torch.equal(old[~mask], weight[~mask])
        assert (old[mask] != weight[mask]).float().mean() > 0.9
    network.refreeze()
    assert network.frozen_share() == 1
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
