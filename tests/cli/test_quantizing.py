"""`edgemeta quantize`: a folder of pictures or a video, without labels."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage, Relu
from edgemeta.model.tasks import Classification


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A small float network of three classes."""
    weight = np.random.default_rng(2).normal(0, 0.3, (3, 3, 3, 3)).astype(np.float32)
    layers = (Conv("c", "input", weights=weight), Relu("r", "c"), GlobalAverage("g", "r"))
    path = tmp_path / "float.safetensors"
    save_float_model(FloatModel("small", (16, 16, 3), layers, ("g",), Classification(tuple("abc"))), path)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of five pictures, one of them damaged."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number in range(5):
        cv2.imwrite(str(folder / f"{number}.png"), rng.integers(0, 256, (20 + number, 40, 3)).astype(np.uint8))
    (folder / "2.png").write_bytes(b"damaged")
    return folder


def test_a_folder_with_a_damaged_picture(
    edgemeta: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "net.safetensors"
    done = edgemeta("quantize", network, "--calibrate", pictures, "--out", out)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "edgemeta: 1/9 images"
    assert lines[1].startswith("edgemeta: left out: image ")
    assert lines[1].endswith("2.png cannot be decoded, expected JPEG, PNG or the like")
    assert lines[2].startswith("edgemeta: 2/9 ranges, about ")
    assert lines[9].startswith("edgemeta: 9/9 layers, about ")  # the damaged picture has a line of its own
    assert [line for line in lines[11:] if not line.startswith("edgemeta: warning: another label")] == []
    assert "4 calibration images; agreement with the float network, same label" in done.stdout
    assert "signal-to-quantization-noise, the worst 2 of 2 layers" in done.stdout
    assert load(out).provenance["calibration_images"] == 4


def test_ctrl_c_promises_no_continuation(network: Path, pictures: Path, tmp_path: Path) -> None:
    for number in range(5, 200):
        (pictures / f"{number}.png").write_bytes((pictures / "1.png").read_bytes())
    command = [sys.executable, "-c", "from edgemeta.cli.main import main; main()", "quantize", str(network)]
    with subprocess.Popen(
        [*command, "--calibrate", str(pictures), "--out", str(tmp_path / "net.safetensors")],
        stderr=subprocess.PIPE,
        text=True,
        # a suite that runs in the background has SIGINT ignored, and its children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "edgemeta: 1/9 images\n"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 1
    assert "Aborted!" in said
    assert "continues" not in said


def test_the_report_as_json(edgemeta: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path) -> None:
    (pictures / "2.png").unlink()
    out = tmp_path / "net.safetensors"
    done = edgemeta("quantize", network, "--calibrate", pictures, "--ranges", "minmax", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["bytes"] == out.stat().st_size
    assert values["calibration_images"] == 4
    assert {each["layer"] for each in values["layers"]} == {"c", "g"}
    assert values["output_errors"]["g"] < 0.01
    assert values["peak_memory"] > 1 << 20
    assert all("minmax" in each["choice"] for each in values["tried"])


def test_what_was_lost_is_one_line(edgemeta: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path) -> None:
    (pictures / "2.png").unlink()
    words = ("quantize", network, "--calibrate", pictures, "--ranges", "minmax", "--out", tmp_path / "net.safetensors")
    lines = edgemeta(*words).stdout.splitlines()
    assert lines[-2].startswith("another label than in float on ")
    assert lines[-2].endswith(" % of 10 images by which it was chosen")
    done = edgemeta(*words, "--test", pictures, "--json")
    values = json.loads(done.stdout)
    assert values["images"] == 4
    assert values["lost"].endswith(" % of 4 test pictures without labels")
    assert values["lost_points"] == pytest.approx(100 * (1 - values["test_agreement"]["same_label"]))
    assert ("edgemeta: warning: " in done.stderr) == (values["lost_points"] > 2)


def test_mistakes_get_one_sentence(
    edgemeta: Callable[..., Any], one_sentence: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path
) -> None:
    out, empty = tmp_path / "net.safetensors", tmp_path / "empty"
    empty.mkdir()
    for arguments, said in (
        ((pictures, "--to", "9"), "is no video, so it has no frames to choose by number"),
        ((empty,), "has no pictures, expected some of"),
        ((tmp_path / "none",), "does not exist, expected a data set, a folder of pictures or a video"),
    ):
        one_sentence(edgemeta("quantize", network, "--out", out, "--calibrate", *arguments), said)
        assert not out.exists()


def test_scheme_binary_reports_each_layer_and_both_forms(
    edgemeta: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path
) -> None:
    (pictures / "2.png").unlink()
    x = np.random.default_rng(5).integers(0, 256, (6, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "test.npz", x=x, y=np.arange(6) % 3, labels=np.array(["a", "b", "c"]))
    out = tmp_path / "binary.safetensors"
    options = ("--scheme", "binary", "--bases", 3, "--feature-bits", 4, "--calibrate", pictures)
    done = edgemeta("quantize", network, *options, "--test", tmp_path / "test.npz", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["scheme"] == "binary"
    assert [(each["layer"], each["bases"]) for each in found["layers"]] == [("c", 3)]
    assert found["real_top1"] is not None
    assert load(out).provenance["feature_bits"] == {"input": 4}
    text = edgemeta("quantize", network, *options, "--test", tmp_path / "test.npz", "--out", out).stdout
    assert "signal-to-noise ratio of the decomposed weights" in text
    assert "with real factors" in text


def test_scheme_binary_needs_calibration_images(edgemeta: Callable[..., Any], network: Path, tmp_path: Path) -> None:
    done = edgemeta("quantize", network, "--scheme", "binary", "--out", tmp_path / "x.safetensors")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "scheme binary needs calibration images, found none" in done.stderr
