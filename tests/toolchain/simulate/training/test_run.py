"""Loss scaling: the steps of float32 stay what they are, overflow leaves a step out, the state goes on."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from edgemeta.toolchain.simulate.training.run import FIRST, ScaledStep
from edgemeta.toolchain.train.optimizer_step import OptimizerStep


def network() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(4, 3)


def loss(model: nn.Module, factor: float = 1.0) -> torch.Tensor:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    result: torch.Tensor = model(x).square().mean() * factor
    return result


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


@pytest.mark.parametrize("scale", [1024.0, None])
def test_a_power_of_two_changes_no_step(scale: float | None) -> None:
    plain, scaled = network(), network()
    one, other = OptimizerStep(sgd(plain)), ScaledStep(sgd(scaled), scale)
    for _ in range(3):
        one.take(loss(plain))
        other.take(loss(scaled))
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), scaled.parameters(), strict=True))


def test_the_backward_pass_sees_the_scale() -> None:
    seen = []
    for scale in (1.0, 8.0):
        model = network()
        value = loss(model)
        value.register_hook(seen.append)  # type: ignore[no-untyped-call]
        ScaledStep(sgd(model), scale).take(value)
    assert [float(gradient) for gradient in seen] == [1.0, 8.0]


def test_overflow() -> None:
    """The step is left out; a dynamic scale is halved, and doubled after a thousand steps; a fixed one stays."""
    model = network()
    dynamic, fixed = ScaledStep(sgd(model), None), ScaledStep(sgd(model), 1024.0)
    before = copy.deepcopy(model.state_dict())
    for step in (dynamic, fixed):
        step.take(loss(model, 1e38))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert (dynamic.scale, fixed.scale) == (FIRST / 2, 1024.0)
    for _ in range(999):
        dynamic.take(loss(model, 0.0))
    again = ScaledStep(sgd(model), None)
    again.restore(copy.deepcopy(dynamic.state()))
    for step in (dynamic, again):
        assert step.scale == FIRST / 2
        step.take(loss(model, 0.0))
        assert step.scale == FIRST


def test_the_state_can_be_saved(tmp_path: Any) -> None:
    step = ScaledStep(sgd(network()), None)
    torch.save(step.state(), tmp_path / "s.pt")
    assert torch.load(tmp_path / "s.pt", weights_only=True)["scale"] == FIRST
