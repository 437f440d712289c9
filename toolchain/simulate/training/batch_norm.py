"""Batch normalization by the statistics of the whole batch, the same bits for any number of workers.

Each image gives its sums over rows and columns; the sums of all images are added in the order of the batch, in float64.
So the statistics do not depend on how many workers share the batch.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.train.workers import Workers


class WholeBatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` whose statistics are those of all workers' rows together."""

    def __init__(self, norm: nn.BatchNorm2d, workers: Workers) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum)
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self._workers = workers

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (PyTorch's name)
        """float32 [rows of this worker, channels, height, width], of rows in float32 or, in training, another type."""
        if not self.training:
            return super().forward(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        y, mean, variance = _Normalize.apply(  # type: ignore[no-untyped-call]
            input.float(), self.weight, self.bias, self.running_mean.clone(), self.eps, self._workers
        )
        elements = input.numel() // input.shape[1] * self._workers.count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum or 0.0)
            self.running_var.lerp_(variance * (elements / max(1, elements - 1)), self.momentum or 0.0)
            assert self.num_batches_tracked is not None
            self.num_batches_tracked += 1
        found: Tensor = y
        return found


def share_statistics(network: nn.Module, workers: Workers) -> None:
    """Replace all batch norms of a network, in place; parameters and buffers stay the same. Raises SimulateError."""
    for name, module in list(network.named_modules()):
        if not isinstance(module, nn.BatchNorm2d):
            continue
        if not module.affine or module.running_mean is None or module.momentum is None:
            raise SimulateError(
                f"layer {name} is a batch norm without factors or without a moving average, expected one with both"
            )
        parent, _, own = name.rpartition(".")
        setattr(network.get_submodule(parent), own, WholeBatchNorm(module, workers))


class _Normalize(Function):
    """weight (x - mean) / sqrt(variance + eps) + bias; also mean and variance, float32 [channels].

    The sums are those of x - centre, which is near the mean, so that the variance loses no digits.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, eps: float, workers: Workers
    ) -> tuple[Tensor, Tensor, Tensor]:
        shifted = x - _each(centre)
        first, second = _means(shifted, shifted.square(), workers)
        variance = (second - first.square()).clamp(min=0)
        mean, inverse = (centre + first).float(), (variance + eps).rsqrt().float()
        factor = weight * inverse
        ctx.save_for_backward(x, factor, mean, inverse)
        ctx.workers = workers
        variance = variance.float()
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(_each(bias - mean * factor), x, _each(factor)), mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Give factor (gradient - its mean - x^ * mean of gradient x^), x^ the normalized x."""
        x, factor, mean, inverse = ctx.saved_tensors
        normalized = (x - _each(mean)).mul_(_each(inverse))
        products = gradient * normalized
        first, second = (each.float() for each in _means(gradient, products, ctx.workers))
        result = (gradient - _each(first)).addcmul_(normalized, _each(-second)).mul_(_each(factor))
        return result, products.sum((0, 2, 3)), gradient.sum((0, 2, 3)), None, None, None


def _means(a: Tensor, b: Tensor, workers: Workers) -> tuple[Tensor, Tensor]:
    """Means over the whole batch, float64 [channels], of two tensors [rows, channels, height, width]."""
    channels, places = a.shape[1], a[0, 0].numel()
    rows = workers.in_batch_order(torch.cat((a.sum((2, 3)), b.sum((2, 3))), 1)).double()
    sums = rows.sum(0) / (len(rows) * places)
    return sums[:channels], sums[channels:]


def _each(channels: Tensor) -> Tensor:
    return channels[:, None, None]
