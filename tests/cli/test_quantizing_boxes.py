"""`edgemeta quantize` on a detection."""

import json
from pathlib import Path

import pytest

from edgemeta.model.float_file import save_float_model
from edgemeta.toolchain.data.boxed_images import save_boxed_images
from rig.small_detection import cell_network, cell_pictures


def test_precision_is_printed_and_said_as_json(edgemeta, tmp_path: Path) -> None:
    save_float_model(cell_network(), tmp_path / "float.safetensors")
    save_boxed_images(cell_pictures(25, 1), tmp_path / "boxes.npz")
    boxes, out = tmp_path / "boxes.npz", tmp_path / "out.safetensors"
    words = ("quantize", tmp_path / "float.safetensors", "--scheme", "binary", "--calibrate", boxes, "--test", boxes)
    values = json.loads(edgemeta(*words, "--out", out, "--json").stdout)
    assert values["images"] == 25
    assert 0 < values["map"] <= values["map50"] <= 100
    assert values["real_map"] == pytest.approx(values["map"], abs=5)
    text = edgemeta(*words, "--out", out).stdout
    assert "mean average precision on 25 test images" in text
    assert f"{values['map']:.2f} %" in text
