"""`edgemeta train --task detection` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

SMALL = ("--size", 64, "--width", 0.25, "--threads", 1)


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """Twelve pictures with a bright square each, in YOLO's form."""
    folder, rng = tmp_path / "yard", np.random.default_rng(1)
    folder.mkdir()
    (folder / "classes.txt").write_text("ball\n", "utf-8")
    for number in range(12):
        x, y = rng.integers(0, 40, 2).tolist()
        pixels = np.full((64, 64, 3), 60, np.uint8)
        pixels[y : y + 24, x : x + 24] = 240
        assert cv2.imwrite(str(folder / f"{number}.png"), pixels)
        (folder / f"{number}.txt").write_text(f"0 {(x + 12) / 64} {(y + 12) / 64} 0.375 0.375\n", "utf-8")
    return folder


def arguments(yard: Path, run: Path) -> list[str]:
    parts = ("train", "--task", "detection", "--data", yard, "--folder", run, "--out", run.with_suffix(".safetensors"))
    return [*map(str, (*parts, *SMALL))]


@pytest.mark.gate("20 s: a process that trains, and one that quantizes")
def test_own_pictures_become_a_model_that_finds_things(
    edgemeta: Callable[..., Any], yard: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = edgemeta(*arguments(yard, run), "--epochs", "4", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["epochs"] == 9
    assert Path(values["report"]).is_file()
    assert Path(values["card"]) == run.with_suffix(".md")
    again = edgemeta(*arguments(yard, run), "--epochs", "4")
    assert again.stdout.splitlines()[0].endswith("of 9; on 2 held-out pictures:")
    assert again.stdout.splitlines()[-1] == (
        f"next: edgemeta quantize {run}.safetensors --calibrate {yard} --test {run}/validation.npz --out MODEL"
    )
    model = tmp_path / "yard.safetensors"
    parts = ("--calibrate", yard, "--test", run / "validation.npz", "--out", model)
    made = edgemeta("quantize", f"{run}.safetensors", *map(str, parts))
    assert made.returncode == 0, made.stderr
    measured = edgemeta("eval", str(model), "--data", str(run / "validation.npz"), "--json")
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout)["map50"] >= values["map50"] - 10


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--task", "detection", "--depth", "8"), "--depth is for a classification, found --task detection"),
        (("--task", "detection", "--network", "vgg16"), "--network is for a classification"),
        (("--task", "detection", "--size", "100"), "--size is 100, expected a multiple of 32"),
        (("--task", "detection", "--size", "64x100"), "--size is 100, expected a multiple of 32"),
        (("--size", "64x"), "'' is not a valid integer"),
        (("--size", "64x96"), "--size is 64x96, expected one number for a classification"),
        (("--device", "cuda"), "--device is for --task detection"),
        (("--without", "street"), "--without is for --task detection"),
        (("--teacher", "t.safetensors"), "--teacher is for --task detection"),
    ],
)
def test_wrong_usage(edgemeta: Callable[..., Any], more: tuple[str, ...], sentence: str) -> None:
    done = edgemeta("train", "--data", "d", "--folder", "f", "--out", "o", *more)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_a_fault_in_the_data_is_one_sentence(edgemeta: Callable[..., Any], yard: Path, tmp_path: Path) -> None:
    (yard / "3.txt").write_text("5 0.5 0.5 0.1 0.1\n", "utf-8")
    done = edgemeta(*arguments(yard, tmp_path / "run"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"edgemeta: {yard / '3.txt'}: line 1 is of class 5, expected 0..0\n"
