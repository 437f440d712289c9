"""Everything here needs PyTorch; a small network and images to retrain it with."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

import torch

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build

LABELS = ("dark", "light", "mixed")


@pytest.fixture
def images() -> Dataset:
    """60 images of three classes, which differ in brightness."""
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    pixels = rng.integers(0, 120, (60, 32, 32, 3)) + 60 * y[:, None, None, None]
    return Dataset(pixels.astype(np.uint8), y, LABELS)


@pytest.fixture
def small() -> FloatModel:
    """ResNet-8 with an eighth of its channels and random weights."""
    torch.manual_seed(4)
    return build(Design(classes=3, width=0.125)).classification("small", LABELS, {})
