"""A small folder of a fixed camera's two states, and what is taught from it."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.toolchain.teach.teach import Settings, Taught, teach

STATES = ("left", "right")


def draw_states(folder: Path, count: int, seed: int = 0) -> Path:
    """Pictures of a bright bar at the left or the right of a noisy picture in changing light."""
    rng = np.random.default_rng(seed)
    for position, label in enumerate(STATES):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = rng.normal(60 + 40 * rng.random(), 8, (48, 64, 3))
            start = 8 + 34 * position + int(rng.integers(-2, 3))
            pixels[10:40, start : start + 12] += 70
            path = folder / label / f"{number}.png"
            assert cv2.imwrite(str(path), np.clip(pixels, 0, 255).astype(np.uint8))
    return folder


@pytest.fixture(scope="session")
def backbone() -> Model:
    return load(find("resnet8-cifar10"))


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_states(tmp_path_factory.mktemp("states") / "bar", 10)


@pytest.fixture(scope="session")
def taught(states: Path, backbone: Model) -> Taught:
    return teach(states, backbone, Settings("bar"), print, lambda *_: None)


@pytest.fixture
def said() -> list[str]:
    return []


Draw = Callable[..., Path]


@pytest.fixture(scope="session")
def draw() -> Draw:
    return draw_states
