"""The mean of several trained networks of one kind."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

N = TypeVar("N", bound=nn.Module)


def mean_network(networks: Sequence[N]) -> N:
    """A network whose weights are the means of theirs, in evaluation mode.

    They must have begun at the same weights, else the mean of two good networks is a bad one. The statistics of batch
    norms do not follow from those of the parts: `refresh_statistics`.
    """
    mean = deepcopy(networks[0]).eval()
    states = [network.state_dict() for network in networks]
    with torch.no_grad():
        for name, value in mean.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.stack([state[name] for state in states]).mean(0))
    return mean


def refresh_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Measure mean and variance of every batch norm anew: the mean over these batches [n, C, H, W] of network input."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over all batches
    network.train()
    with torch.no_grad():
        for batch in batches:
            network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.eval()
