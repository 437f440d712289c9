"""What follows a batch's loss: the backward pass and the optimizer's step."""

from typing import Any

import torch
from torch import Tensor, nn


def parameter_groups(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """What is trained: weights of convolutions and dense layers, which decay; shifts and factors, which do not."""
    trained = [each for each in network.parameters() if each.requires_grad]
    weights, others = [each for each in trained if each.ndim > 1], [each for each in trained if each.ndim <= 1]
    return [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


class OptimizerStep:
    """The plain form. optimizer: with the network's parameters; it is changed."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def take(self, loss: Tensor) -> None:
        """Change the parameters by the gradient of the loss, a scalar."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.optimizer.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        self.optimizer.load_state_dict(state)
