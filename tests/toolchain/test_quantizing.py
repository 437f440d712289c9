"""Verb quantize: a float model file in, an integer model file out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.toolchain.errors import DataError, FloatModelError, QuantizeError
from edgemeta.toolchain.float_file import save_float_model
from edgemeta.toolchain.float_graph import FloatModel
from edgemeta.toolchain.quantizing import quantize


@pytest.fixture
def files(tmp_path: Path, every_layer: FloatModel, pixels: Any, classes: Any) -> tuple[Path, Path, Path]:
    """Float model, data set, and where the result goes."""
    save_float_model(every_layer, tmp_path / "float.safetensors")
    np.savez(tmp_path / "data.npz", x=pixels, y=classes)
    return tmp_path / "float.safetensors", tmp_path / "data.npz", tmp_path / "int.safetensors"


@pytest.mark.parametrize("scheme", ["paper", "auto"])
def test_quantize(files: tuple[Path, Path, Path], scheme: Any) -> None:
    source, data, out = files
    result = quantize(source, out, scheme, calibration=data, test=data)
    model = load(out)
    assert model.digest == result.sha256
    assert model.provenance["scheme"] == scheme
    assert model.provenance["test_accuracy"] == result.accuracy
    assert model.provenance["float_test_accuracy"] == result.float_accuracy
    assert result.images == 20
    assert (result.choice is None) == (scheme == "paper")
    assert isinstance(model.provenance["float_sha256"], str)


def test_the_same_input_gives_the_same_bytes(files: tuple[Path, Path, Path]) -> None:
    source, data, out = files
    first = quantize(source, out, "auto", calibration=data)
    assert quantize(source, out, "auto", calibration=data) == first
    assert first.accuracy is None


def test_what_is_refused(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    source, data, out = files
    with pytest.raises(QuantizeError, match="needs calibration images"):
        quantize(source, out, "auto")
    np.savez(tmp_path / "small.npz", x=np.zeros((3, 8, 8, 3), np.uint8), y=np.zeros(3, np.uint8))
    with pytest.raises(QuantizeError, match=r"images are \(8, 8, 3\), expected \(32, 32, 3\)"):
        quantize(source, out, "auto", calibration=tmp_path / "small.npz")
    with pytest.raises(DataError):
        quantize(source, out, "auto", calibration=tmp_path / "none.npz")
    with pytest.raises(FloatModelError, match="not a whole safetensors file"):
        quantize(data, out, "paper")
    assert not out.exists()
