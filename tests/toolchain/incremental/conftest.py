"""Everything here needs PyTorch; a small network and images to retrain it with."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

from edgemeta.toolchain.data.dataset import Dataset  # noqa: E402
from edgemeta.toolchain.float_model.graph import FloatModel  # noqa: E402
from edgemeta.toolchain.train.designs import Design  # noqa: E402
from edgemeta.toolchain.train.export import export_network  # noqa: E402
from edgemeta.toolchain.train.networks import build  # noqa: E402

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
    return export_network(build(Design(classes=3, width=0.125)), "small", LABELS, {})
