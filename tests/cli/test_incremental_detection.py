"""`edgemeta quantize --scheme incremental` of a detection, on pictures with boxes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")


@pytest.mark.gate("trains in a process of its own")
def test_errors_decibels_and_precision(edgemeta: Callable[..., Any], tmp_path: Path) -> None:
    from edgemeta.model.float_file import save_float_model
    from edgemeta.model.graph import FloatModel
    from edgemeta.model.layers import Conv
    from edgemeta.model.tasks import Detection, DetectionLevel
    from edgemeta.toolchain.data.boxed_images import BoxedImages, save_boxed_images

    rng = np.random.default_rng(1)
    layers = tuple(
        Conv(name, "input", weights=rng.normal(0, 0.2, (count, 4, 4, 3)).astype(np.float32), stride=(4, 4))
        for name, count in (("boxes", 4), ("objects", 1), ("classes", 2))
    )
    task = Detection(("cat", "dog"), "yolox", (DetectionLevel("boxes", "classes", "objects"),))
    save_float_model(
        FloatModel("m", (32, 48, 3), layers, ("boxes", "objects", "classes"), task), tmp_path / "m.safetensors"
    )
    corners, numbers = np.tile(np.array([[5, 5, 30, 30]], np.float32), (20, 1)), np.arange(20)
    pictures = rng.integers(0, 256, (20, 40, 60, 3)).astype(np.uint8)
    save_boxed_images(BoxedImages(pictures, corners, numbers % 2, numbers, ("cat", "dog")), tmp_path / "set.npz")
    command = ("quantize", tmp_path / "m.safetensors", "--scheme", "incremental", "--shares", "0.5,1", "--epochs", 1)
    command += ("--train", tmp_path / "set.npz", "--folder", tmp_path / "run", "--out", tmp_path / "out.safetensors")
    done = edgemeta(*command)
    assert done.returncode == 0, done.stderr
    assert "2 images held out of the retraining; agreement with the float network" in done.stdout
    assert "output objects: relative error" in done.stdout
    assert "mean average precision on 2 images held out of the retraining" in done.stdout
    again = json.loads(edgemeta(*command, "--json").stdout)
    assert {*again["output_errors"]} == {"boxes", "objects", "classes"}
