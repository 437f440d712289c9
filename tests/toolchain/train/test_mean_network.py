"""The mean of networks: weights are means, and batch statistics are those of the images."""

import torch
from torch import nn

from edgemeta.toolchain.train.mean_network import mean_network, refresh_statistics


def small(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def test_weights_are_the_means_and_the_parts_stay() -> None:
    one, two = small(1), small(2)
    before = one.state_dict()["0.weight"].clone()
    mean = mean_network([one, two])
    assert torch.allclose(
        mean.state_dict()["0.weight"], (one.state_dict()["0.weight"] + two.state_dict()["0.weight"]) / 2
    )
    assert torch.equal(one.state_dict()["0.weight"], before)
    assert not mean.training


def test_statistics_are_those_of_the_batches() -> None:
    network = small(3)
    batches = [torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(n)) * 3 + 1 for n in range(4)]
    refresh_statistics(network, batches)
    convolved = [network[0](batch) for batch in batches]
    assert torch.allclose(
        network[1].running_mean, torch.stack([c.mean((0, 2, 3)) for c in convolved]).mean(0), atol=1e-5
    )
    assert torch.allclose(network[1].running_var, torch.stack([c.var((0, 2, 3)) for c in convolved]).mean(0), rtol=1e-4)
    assert network[1].momentum == 0.1
    assert not network.training
