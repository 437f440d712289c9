"""Batch norm over all workers: PyTorch's values and gradients, and the same bits however a batch is dealt."""

import copy
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from torch import nn

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.training.batch_norm import WholeBatchNorm, share_statistics
from edgemeta.toolchain.train.workers import ALONE, Workers


def norm() -> nn.BatchNorm2d:
    torch.manual_seed(1)
    made = nn.BatchNorm2d(5)
    nn.init.normal_(made.weight)
    nn.init.normal_(made.bias)
    return made


def batch(mean: float = 0.5) -> torch.Tensor:
    x = torch.randn(8, 5, 6, 7, generator=torch.Generator().manual_seed(2)) * 3 + mean
    return x.to(memory_format=torch.channels_last)


def ran(module: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Output, and gradient of the input for a fixed gradient of the output."""
    x = x.clone().requires_grad_()
    y = module(x)
    y.backward(torch.sin(7 * x.detach().float()).to(y.dtype))
    assert x.grad is not None
    return y.detach(), x.grad


@pytest.mark.parametrize("mean", [0.5, 300.0])
def test_alone_it_is_pytorchs(mean: float) -> None:
    """In float64, but for float32's rounding; also where the mean is far from zero, after some steps."""
    exact, mine = norm().double(), WholeBatchNorm(norm(), ALONE)
    for _ in range(100 if mean > 1 else 3):
        expected = ran(exact, batch(mean).double())
        found = ran(mine, batch(mean))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=2e-5 * max(1.0, mean))
    for name, tensor in exact.state_dict().items():
        torch.testing.assert_close(mine.state_dict()[name].double(), tensor.double(), rtol=1e-5, atol=1e-6)
    for name, parameter in exact.named_parameters():
        assert parameter.grad is not None
        gradient: Any = mine.get_parameter(name).grad
        torch.testing.assert_close(gradient.double(), parameter.grad, rtol=1e-4, atol=2e-4 * max(1.0, mean))
    exact.eval()
    torch.testing.assert_close(mine.eval()(batch(mean)).double(), exact(batch(mean).double()), rtol=1e-4, atol=1e-3)


class Threads(Workers):
    """Workers that are threads of this process."""

    shelf: dict[int, Any]
    barrier: Barrier

    def in_batch_order(self, rows: torch.Tensor) -> torch.Tensor:
        self.shelf[self.rank] = rows.detach().clone()
        self.barrier.wait()
        parts = [self.shelf[rank] for rank in range(self.count)]
        self.barrier.wait()
        return torch.stack(parts, 1).flatten(0, 1)


@pytest.mark.parametrize("count", [2, 4])
def test_any_number_of_workers_gives_the_same_bits(count: int) -> None:
    whole = WholeBatchNorm(norm(), ALONE)
    expected = ran(whole, batch())
    shelf, barrier = {}, Barrier(count, timeout=60)
    results: dict[int, Any] = {}
    modules = []
    for rank in range(count):
        workers = Threads(rank, count)
        object.__setattr__(workers, "shelf", shelf)
        object.__setattr__(workers, "barrier", barrier)
        modules.append(WholeBatchNorm(copy.deepcopy(norm()), workers))

    def work(rank: int) -> None:
        results[rank] = ran(modules[rank], batch()[rank::count])

    threads = [Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for rank, module in enumerate(modules):
        for found, wanted in zip(results[rank], expected, strict=True):
            assert torch.equal(found, wanted[rank::count])
        for name, tensor in whole.state_dict().items():
            assert torch.equal(module.state_dict()[name], tensor), name
    for name, parameter in whole.named_parameters():
        parts: Any = sum(module.get_parameter(name).grad for module in modules)  # type: ignore[misc]
        torch.testing.assert_close(parts, parameter.grad)


def test_all_norms_of_a_network_are_replaced() -> None:
    network = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Sequential(norm(), nn.ReLU()))
    names, weight = list(network.state_dict()), network[1][0].weight
    share_statistics(network, ALONE)
    assert isinstance(network[1][0], WholeBatchNorm)
    assert network[1][0].weight is weight
    assert list(network.state_dict()) == names
    with pytest.raises(SimulateError, match="layer 0 is a batch norm without factors"):
        share_statistics(nn.Sequential(nn.BatchNorm2d(3, affine=False)), ALONE)
