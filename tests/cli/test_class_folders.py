"""A folder of pictures for each class with `eval`, `verify`, `quantize` and `predict`: a network that names colours."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage
from edgemeta.model.tasks import Classification

LABELS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 blue, 6 green and 7 red pictures of several sizes; the first of each is of the next colour."""
    folder = tmp_path_factory.mktemp("pictures") / "colours"
    rng = np.random.default_rng(5)
    for count, label in zip((5, 6, 7), sorted(LABELS), strict=True):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 120, (20 + number, 30, 3)).astype(np.uint8)
            channel = (2 - LABELS.index(label) + (number == 0)) % 3  # of B, G, R
            pixels[..., channel] += 110
            cv2.imwrite(str(folder / label / f"{number}.png"), pixels)
    return folder


@pytest.fixture(scope="module")
def floating(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float network with logits that are the means of the channels, for a letterbox of 16 x 12."""
    weight = np.eye(3, dtype=np.float32)[:, None, None]
    layers = (Conv("c", "input", weights=weight * 4), GlobalAverage("g", "c"))
    task, path = Classification(LABELS), tmp_path_factory.mktemp("network") / "float.safetensors"
    save_float_model(FloatModel("colours", (12, 16, 3), layers, ("g",), task, crop="letterbox", fill=(128,)), path)
    return path


@pytest.fixture(scope="module")
def quantized(edgemeta: Callable[..., Any], floating: Path, folder: Path) -> tuple[Path, Any]:
    """The integer model with what `quantize` printed of it."""
    out = floating.with_name("net.safetensors")
    arguments = ("--calibrate", folder, "--held-out", folder, "--test", folder, "--ranges", "minmax", "--out", out)
    done = edgemeta("quantize", floating, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    said = f"edgemeta: {folder}: the test images are the held-out ones, to which the temperature was fitted"
    assert said in done.stderr.splitlines()
    return out, json.loads(done.stdout)


def test_quantize_measures_both_networks(quantized: tuple[Path, Any]) -> None:
    path, values = quantized
    assert (values["images"], values["calibration_images"]) == (18, 18)
    assert values["float_top1"] == values["top1"] == pytest.approx(100 * 15 / 18, abs=1e-3)
    made = load(path)
    assert made.provenance["test_images"] == made.provenance["held_out_images"] == 18
    assert made.provenance["test_pixels_sha256"] == made.provenance["held_out_pixels_sha256"]


def test_eval_prints_the_recall_of_each_class(
    edgemeta: Callable[..., Any], edgemeta_json: Callable[..., Any], quantized: tuple[Path, Any], folder: Path
) -> None:
    path, values = quantized
    result = edgemeta_json("eval", path, "--data", folder)
    assert (result["images"], result["top1"]) == (18, values["top1"])
    assert result["calibration_error"] == values["calibration_error"]
    percents = {label: each["percent"] for label, each in result["recall"].items()}
    assert percents == {"blue": 80.0, "green": pytest.approx(83.3333), "red": pytest.approx(85.7143)}
    assert {label: each["images"] for label, each in result["recall"].items()} == {"blue": 5, "green": 6, "red": 7}
    lines = edgemeta("eval", path, "--data", folder).stdout.splitlines()
    assert lines[0].startswith("top-1 83.33 %, calibration error ")
    assert lines[1] == "recall:"
    assert lines[2:4] == ["  blue    80.00 % of 5 images", "  green   83.33 % of 6 images"]
    assert lines[4:] == ["  red     85.71 % of 7 images"]


def test_eval_of_the_float_network(edgemeta_json: Callable[..., Any], floating: Path, folder: Path) -> None:
    result = edgemeta_json("eval", floating, "--data", folder)
    assert (result["images"], result["top1"], result["backend"]) == (18, pytest.approx(83.3333), "float32")


def test_verify_takes_any_folder_of_pictures(
    edgemeta_json: Callable[..., Any], quantized: tuple[Path, Any], folder: Path
) -> None:
    for path, count in ((folder, 18), (folder / "red", 7)):
        result = edgemeta_json("verify", quantized[0], "--data", path, "--backend", "cpu")
        assert (result["images"], result["mismatches"]) == (count, 0)


def test_predict_says_which_share_is_right(
    edgemeta: Callable[..., Any], quantized: tuple[Path, Any], folder: Path
) -> None:
    done = edgemeta("predict", quantized[0], f"{folder}/", "--top", 1)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 20  # a head, 18 pictures, the share
    assert done.stdout.splitlines()[-1] == "83.33 % of 18 images get the label of their folder"
    done = edgemeta("predict", quantized[0], folder, "--threshold", 0.999, "--json")
    assert done.stderr == "83.33 % of 18 images get the label of their folder\n"
    assert [json.loads(line)["labels"] for line in done.stdout.splitlines()] == [[]] * 18


def test_predict_says_nothing_of_folders_that_are_no_labels(
    edgemeta: Callable[..., Any], quantized: tuple[Path, Any], folder: Path, tmp_path: Path
) -> None:
    assert "label of their folder" not in edgemeta("predict", quantized[0], folder / "red").stdout
    for name in ("other", "red"):
        shutil.copytree(folder / "red", tmp_path / name)
    done = edgemeta("predict", quantized[0], tmp_path, "--json")
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes(
    edgemeta: Callable[..., Any],
    one_sentence: Callable[..., Any],
    quantized: tuple[Path, Any],
    folder: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "yellow").symlink_to(folder / "red")
    (tmp_path / "blue").symlink_to(folder / "blue")
    one_sentence(edgemeta("eval", quantized[0], "--data", tmp_path), "the class 'yellow' is no label of the model")
    (tmp_path / "yellow").unlink()
    done = edgemeta("eval", quantized[0], "--data", tmp_path)
    assert done.stdout.startswith("top-1 80.00 %")
    assert done.stderr == f"edgemeta: {tmp_path}: lacks classes of the model: red, green\n"
    for path in (tmp_path / "none", tmp_path / "empty"):
        one_sentence(edgemeta("eval", quantized[0], "--data", path), str(path), "expected" * (path.name == "empty"))
        (tmp_path / "empty").mkdir(exist_ok=True)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"")
    done = edgemeta("verify", quantized[0], "--data", tmp_path / "broken")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"edgemeta: left out: image {tmp_path}/broken/a.png is empty",
        f"edgemeta: {tmp_path}/broken: no image can be decoded, expected at least one",
    ]
