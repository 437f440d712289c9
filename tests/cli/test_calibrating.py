"""`edgemeta model calibrate`: the written model, its figures, and one sentence for each mistake."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.data.boxed_images import save_boxed_images
from rig.small_detection import cell_network, cell_pictures
from rig.square_detector import save_square_detector


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    """The paler a cell, the more seldom it has a box: what is found there with a low score counts as wrong."""
    path, whole = tmp_path / "boxes.npz", cell_pictures(60, 1)
    left, top = whole.boxes[:, :2].astype(np.int64).T
    strength = np.ptp(whole.x[whole.images, top, left].astype(np.int64), axis=1)
    kept = strength > np.random.default_rng(1).integers(20, 140, len(strength))
    save_boxed_images(
        replace(whole, boxes=whole.boxes[kept], classes=whole.classes[kept], images=whole.images[kept]), path
    )
    return path


def test_a_quantized_detection_is_calibrated(edgemeta, edgemeta_json, boxes: Path, tmp_path: Path) -> None:
    source, model, out = (tmp_path / f"{name}.safetensors" for name in ("float", "model", "out"))
    save_float_model(cell_network(), source)
    edgemeta("quantize", source, "--calibrate", boxes, "--out", model)
    values = edgemeta_json("model", "calibrate", model, "--held-out", boxes, "--out", out)
    made = load(out)
    assert isinstance(made.task, Detection)
    assert (values["sha256"], values["score_threshold"]) == (made.digest, made.task.score_threshold)
    assert values["error"] < values["plain_error"]
    text = edgemeta("model", "calibrate", model, "--held-out", boxes, "--out", out).stdout
    assert f"{values['error']:.1%} between score and share of right ones; {values['plain_error']:.1%} before" in text
    assert made.task.label_overlap is None
    edgemeta("model", "calibrate", model, "--held-out", boxes, "--label-overlap", 0.75, "--out", out)
    assert "of different labels 0.75, at most" in edgemeta("model", "info", out).stdout
    measured = [edgemeta_json("eval", path, "--data", boxes)["map50"] for path in (model, out)]
    assert measured[1] == pytest.approx(measured[0], abs=2)


def test_mistakes_are_one_sentence(edgemeta, one_sentence, boxes: Path, tmp_path: Path) -> None:
    squares, out = save_square_detector(tmp_path / "squares.safetensors"), ("--out", tmp_path / "out.safetensors")
    missing = tmp_path / "nothing"
    calibrate = ("model", "calibrate")
    one_sentence(edgemeta(*calibrate, squares, "--held-out", missing, *out), f"{missing}: is not there")
    one_sentence(
        edgemeta(*calibrate, "resnet8-cifar10", "--held-out", boxes, *out),
        "resnet8-cifar10: its task is classification, expected a detection",
    )
    one_sentence(
        edgemeta(*calibrate, squares, "--held-out", boxes, "--foreign", missing, *out), f"{missing}: does not exist"
    )
    assert not (tmp_path / "out.safetensors").exists()
