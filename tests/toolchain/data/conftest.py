"""A small folder of pictures for each class, of several sizes and kinds."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

Draw = Callable[..., NDArray[np.uint8]]


@pytest.fixture
def draw() -> Draw:
    """A function that draws a picture [H, W, 3] by a seed."""

    def make(seed: int, height: int = 40, width: int = 56) -> NDArray[np.uint8]:
        return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)

    return make


@pytest.fixture
def class_folder(tmp_path: Path, draw: Draw) -> Path:
    """Classes boat, car and bird with 3, 4 and 2 pictures; the first picture of each is wide, the others are high."""
    folder = tmp_path / "things"
    for base, (label, count) in enumerate([("boat", 3), ("car", 4), ("bird", 2)]):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = draw(10 * base + number, *((31, 47) if number == 0 else (64, 48)))
            assert cv2.imwrite(str(folder / label / f"{number}.png"), pixels)
    return folder


@pytest.fixture
def said() -> list[str]:
    """What was reported; `said.append` is the report."""
    return []
