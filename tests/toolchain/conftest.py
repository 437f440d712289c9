"""Small data sets and float networks that the tests of the workshop share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import FloatModel, Model
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.quantize.calibration import PreparedImages
from tests.float_networks import every_layer, imported_layers, pixels

__all__ = ["every_layer", "imported_layers", "pixels"]


@pytest.fixture
def classes() -> NDArray[np.uint8]:
    """Labels of the twenty images: each of ten classes twice."""
    return np.arange(20, dtype=np.uint8) % 10


@pytest.fixture
def write_npz(tmp_path: Path) -> Any:
    """A function that writes members to an .npz and returns its path."""

    def write(**members: Any) -> Path:
        path = tmp_path / "set.npz"
        np.savez(path, **members)
        return path

    return write


@pytest.fixture
def images(pixels: NDArray[np.uint8]) -> Any:
    """A function that prepares the twenty images for a network."""

    def prepare(model: FloatModel) -> PreparedImages:
        return PreparedImages(model, ArrayFrames(pixels))

    return prepare


def trace(integer: Model, images: PreparedImages) -> dict[str, NDArray[np.generic]]:
    """All tensors of the reference interpreter for all images."""
    return reference.trace(integer, np.concatenate(list(images)))
