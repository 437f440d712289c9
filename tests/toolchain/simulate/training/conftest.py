"""A tiny data set, and a config for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.training import train
from edgemeta.toolchain.simulate.training.page import finished_epochs

RULES = [{"layers": "*", "activation": "int8", "weight": "int8_per_channel", "gradient": "flexfp8_e5m2_shared"}]


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Noisy pictures that are red, green or blue: 64 to train on, 15 to measure."""
    folder = tmp_path_factory.mktemp("coloured")
    rng = np.random.default_rng(1)
    for name, count in (("train", 64), ("test", 15)):
        y = np.arange(count) % 3
        x = np.eye(3)[y][:, None, None] * 80 + rng.normal(90, 50, (count, 24, 24, 3))
        pixels = x.clip(0, 255).astype(np.uint8)
        np.savez(folder / f"{name}.npz", x=pixels, y=y, labels=np.array(["red", "green", "blue"]))
    return folder / "train.npz", folder / "test.npz"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves are drawn in test_page.py; drawing takes longer than these trainings, here epochs are counted."""

    def write(folder: Path, log: Path, _: object) -> None:
        (folder / "curves.html").write_text(f"{len(finished_epochs(log))} epochs")

    monkeypatch.setattr(train, "write_page", write)


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a config of a small network and returns its path."""

    def write(**changes: Any) -> Path:
        entries = {
            "network": {"depth": 8, "width": 0.25},
            "epochs": 3,
            "batch": 16,
            "lr": 0.1,
            "rules": RULES,
            **changes,
        }
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in entries.items() if value is not None}))
        return path

    return write
