"""Distillation: the loss is the formula, the rate its curve."""

import numpy as np
import pytest
import torch

from edgemeta.toolchain.train.student import cosine, distillation_loss


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
