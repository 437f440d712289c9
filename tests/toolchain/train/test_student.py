"""Distillation: the loss is the formula, the rate its curve."""

import numpy as np
import pytest
import torch
from torch import nn

from edgemeta.toolchain.train.student import cosine, distillation_loss, mean_network, refresh_statistics


def test_cosine() -> None:
    assert cosine(0.0, 0.1) == 0.0
    assert cosine(0.05, 0.1) == pytest.approx(0.5)
    assert cosine(0.1, 0.1) == pytest.approx(1.0)
    assert cosine(0.55, 0.1) == pytest.approx(0.5)
    assert cosine(1.0, 0.1) == pytest.approx(0.0)


def test_loss_is_the_formula() -> None:
    rng = np.random.default_rng(0)
    s, t, y, h, temperature = rng.normal(0, 2, (5, 4)), rng.normal(0, 2, (5, 4)), np.array([0, 3, 1, 1, 2]), 0.3, 2.5

    def log_softmax(z: np.ndarray) -> np.ndarray:
        return z - np.log(np.exp(z).sum(1, keepdims=True))

    p, q = log_softmax(t / temperature), log_softmax(s / temperature)
    soft = (np.exp(p) * (p - q)).sum(1).mean()
    hard = -log_softmax(s)[np.arange(5), y].mean()
    wanted = (1 - h) * temperature**2 * soft + h * hard
    labels = torch.from_numpy(np.eye(4)[y])
    found = distillation_loss(torch.from_numpy(s), torch.from_numpy(t), labels, temperature, h)
    assert float(found) == pytest.approx(wanted)
    zero = distillation_loss(torch.from_numpy(t), torch.from_numpy(t), labels, temperature, 0.0)
    assert float(zero) == pytest.approx(0.0, abs=1e-9)


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
