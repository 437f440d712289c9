"""`edgemeta scenes`, and what measures detectors with its archives."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemeta.cli.main import edgemeta
from edgemeta.toolchain.data.boxed_images import load_boxed_images
from edgemeta.toolchain.errors import DataError
from rig.square_detector import save_square_detector


def run(*arguments: str) -> str:
    result = CliRunner().invoke(edgemeta, arguments, catch_exceptions=False, standalone_mode=False)
    return result.stdout


def test_scenes_are_written_and_said(tmp_path: Path) -> None:
    out = tmp_path / "scenes.npz"
    values = json.loads(run("scenes", "--images", "3", "--size", "64", "--out", str(out), "--json"))
    data = load_boxed_images(out)
    assert values["images"] == len(data) == 3
    assert values["sha256"] == data.sha256()
    assert sum(values["boxes"].values()) == len(data.boxes)
    assert "3 scenes of 64x64 pixels" in run("scenes", "--images", "3", "--size", "64", "--out", str(out))
    assert load_boxed_images(out).sha256() == data.sha256()


def test_labels_that_the_model_lacks_are_named(tmp_path: Path) -> None:
    out, model = tmp_path / "scenes.npz", save_square_detector(tmp_path / "squares.safetensors")
    run("scenes", "--images", "3", "--size", "64", "--out", str(out))
    with pytest.raises(DataError, match="is no label of the model, expected red, green, blue"):
        run("eval", str(model), "--data", str(out))
    values = json.loads(run("verify", str(model), "--data", str(out), "--json"))
    assert (values["images"], values["mismatches"]) == (3, 0)


def test_a_detector_is_measured(tmp_path: Path) -> None:
    names = tuple(f"x{number}" for number in range(10))
    out, data = tmp_path / "scenes.npz", None
    run("scenes", "--images", "2", "--size", "64", "--out", str(out))
    data = load_boxed_images(out)
    model = save_square_detector(tmp_path / "squares.safetensors", (*data.labels[:3], *names[3:], *data.labels[3:]))
    values = json.loads(run("eval", str(model), "--data", str(out), "--json"))
    assert values["images"] == 2
    assert 0 <= values["map"] <= values["map50"] <= 100
    assert sum(each["boxes"] for each in values["labels"].values()) == len(data.boxes)
    assert "mean average precision" in run("eval", str(model), "--data", str(out))
