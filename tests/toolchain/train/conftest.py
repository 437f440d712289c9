"""Everything here needs PyTorch."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")


@pytest.fixture
def make_pictures() -> Callable[..., Path]:
    """A function that draws a folder of pictures per class; the classes differ in brightness."""

    def make(folder: Path, labels: tuple[str, ...] = ("closed", "open"), count: int = 10, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        for number, label in enumerate(labels):
            (folder / label).mkdir(parents=True)
            for each in range(count):
                pixels = rng.integers(0, 90, (40, 52, 3)) + 150 * number // (len(labels) - 1)
                assert cv2.imwrite(str(folder / label / f"{each:02d}.png"), pixels.astype(np.uint8))
        return folder

    return make


@pytest.fixture
def picture_folder(tmp_path: Path, make_pictures: Callable[..., Path]) -> Path:
    """Ten pictures each of a gate that is closed (dark) and open (bright)."""
    return make_pictures(tmp_path / "gate")
