"""`edgemeta teach` as a user runs it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

from edgemeta.cli.teaching import teach
from edgemeta.model.file import load
from rig.square_detector import save_square_detector, squares_picture

EXTRAS = ("torch", "onnx", "onnxruntime", "PIL", "rich", "tflite", "scipy", "cryptography")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures of each of two grey levels, the bright one in the right half only."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("teach") / "lamp"
    for label, grey in (("off", 60), ("on", 140)):
        (path / label).mkdir(parents=True)
        for i in range(6):
            pixels = rng.normal(60, 10, (40, 60, 3))
            pixels[:, 30:] += grey - 60
            cv2.imwrite(str(path / label / f"{i}.png"), np.clip(pixels, 0, 255).astype(np.uint8))
    return path


def test_it_writes_a_model_that_predicts(edgemeta: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "lamp.safetensors"
    result = edgemeta("teach", folder, "--out", out, "--region", "0.5,0,0.5,1", "--json")
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["labels"] == ["off", "on"]
    assert values["pictures"] == 12
    assert values["accuracy"] == 1
    assert values["confusing"] == []
    assert values["region"] == {"left": 0.5, "top": 0.0, "width": 0.5, "height": 1.0}
    assert values["warnings"][0].startswith("too few pictures")
    assert result.stderr.splitlines()[0] == "pictures: 1 of 12"
    cropped = tmp_path / "right.png"
    cv2.imwrite(str(cropped), cv2.imread(str(folder / "on" / "0.png"))[:, 30:])
    predicted = edgemeta("predict", out, cropped, "--json")
    assert json.loads(predicted.stdout)["labels"][0]["label"] == "on"


def test_the_text_gives_lines_for_the_config(edgemeta: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "Lämpchen 1.safetensors"
    result = edgemeta("teach", folder, "--out", out, "--region", "0.5,0,0.5,1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[-2:] == [
        f'    model: "{out}"',
        "    region: {left: 0.5, top: 0, width: 0.5, height: 1}",
    ]
    assert result.stderr == ""


@pytest.mark.parametrize("region", ["1,2,3", "a,b,c,d", "0.5,0,0.6,1", "0,0,0,1"])
def test_a_wrong_region_is_wrong_usage(folder: Path, tmp_path: Path, region: str) -> None:
    result = CliRunner().invoke(teach, [str(folder), "--out", str(tmp_path / "m"), "--region", region])
    assert result.exit_code == 2
    assert "left,top,width,height" in result.output


def test_one_class_is_one_sentence(
    edgemeta: Callable[..., Any], one_sentence: Callable[..., None], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "on").symlink_to(folder / "on")
    one_sentence(edgemeta("teach", tmp_path / "single", "--out", tmp_path / "m"), "single", "only the class 'on'")
    assert not (tmp_path / "m").exists()


@pytest.mark.gate("starts the command several times")
def test_killed_at_any_moment_it_leaves_no_half_file(folder: Path, tmp_path: Path) -> None:
    """Killed after each of several lines of progress, and at the end: there is no file, or a whole one."""
    command = str(Path(sys.executable).with_name("edgemeta"))
    for lines in (1, 5, 12, 13, 20, 27):
        out = tmp_path / f"{lines}.safetensors"
        with subprocess.Popen(
            [command, "teach", str(folder), "--out", str(out), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for _ in range(lines):
                assert process.stderr.readline().startswith(("pictures: ", "fits: "))
            process.kill()
        if out.exists():
            assert load(out).labels == ("off", "on")


def test_the_service_s_own_install_suffices() -> None:
    program = f"import sys, edgemeta.cli.teaching; print([name for name in {EXTRAS} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_objects_of_a_detection_are_taught(edgemeta: Callable[..., Any], one_sentence: Any, tmp_path: Path) -> None:
    """Red squares with a black or a red middle, anywhere; a picture without one is named and left out."""
    detector, out = save_square_detector(tmp_path / "squares.safetensors"), tmp_path / "cars.safetensors"
    for label in ("mine", "other"):
        (tmp_path / "cars" / label).mkdir(parents=True)
        for i in range(6):
            picture = squares_picture({(i + 1, i % 6): "red"})
            if label == "mine":
                top, left = 32 * (i % 6), 32 * (i + 1)
                picture[top + 14 : top + 18, left + 10 : left + 22] = 0
            cv2.imwrite(str(tmp_path / "cars" / label / f"{i}.png"), picture)
    cv2.imwrite(str(tmp_path / "cars" / "mine" / "empty.png"), squares_picture({(2, 2): "blue"}))
    words = ("teach", tmp_path / "cars", "--of", "red", "--detector", detector, "--backbone", "resnet8-cifar10")
    result = edgemeta(*words, "--out", out)
    assert result.returncode == 0, result.stderr
    assert "mine/empty.png: shows no such object, left out" in result.stderr
    assert result.stdout.splitlines()[-3:] == ["in the config:", "object_names:", f'  "red": "{out}"']
    assert "accuracy 100.0%" in result.stdout
    stated = load(out).provenance["objects"]
    assert stated == {"label": "red", "detector": {"name": "squares", "sha256": load(detector).digest}}
    wrong = ("teach", tmp_path / "cars", "--out", out, "--detector", detector)
    one_sentence(edgemeta(*wrong, "--of", "violet"), "squares: has no label 'violet', expected one of red, green, blue")
    assert "--of and --detector belong together" in edgemeta(*wrong).stderr
