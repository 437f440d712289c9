"""Loss scaling: the backward pass runs on a multiple of the loss, so that small gradients keep digits in few bits."""

from typing import Any

import torch
from torch import Tensor

from edgemeta.toolchain.train.optimizer_step import OptimizerStep

FIRST, GREATEST = 2.0**16, 2.0**24
"""First and greatest dynamic scale."""
_PATIENCE = 1000
"""Steps without overflow after which a dynamic scale is doubled."""


class ScaledStep(OptimizerStep):
    """A step with the loss multiplied by a scale, and its gradients divided by it before the optimizer reads them.

    A step with a gradient that is not finite is left out. scale: fixed; None: dynamic, halved by every such step and
    doubled after 1,000 steps in a row without one.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scale: float | None) -> None:
        super().__init__(optimizer)
        self._dynamic = scale is None
        self.scale, self._good = FIRST if scale is None else scale, 0

    def take(self, loss: Tensor) -> None:
        """As `OptimizerStep.take`."""
        self.optimizer.zero_grad()
        (loss * self.scale).backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        torch._foreach_div_(gradients, self.scale)
        finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
        if finite:
            self.optimizer.step()
        if self._dynamic:
            self._adapt(finite)

    def _adapt(self, finite: bool) -> None:
        self._good = self._good + 1 if finite else 0
        if not finite:
            self.scale = max(1.0, self.scale / 2)
        elif self._good == _PATIENCE:
            self.scale, self._good = min(GREATEST, self.scale * 2), 0

    def state(self) -> dict[str, Any]:
        """As `OptimizerStep.state`."""
        return {"optimizer": super().state(), "scale": self.scale, "good": self._good}

    def restore(self, state: dict[str, Any]) -> None:
        """As `OptimizerStep.restore`."""
        super().restore(state["optimizer"])
        self.scale, self._good = float(state["scale"]), int(state["good"])
