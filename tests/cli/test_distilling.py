"""`edgemeta quantize --distill`: trained on pictures without labels, and kept only where that is better."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load
from tests.cli.test_quantizing import network

__all__ = ["network"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of thirty pictures."""
    folder, rng = tmp_path / "pictures", np.random.default_rng(3)
    folder.mkdir()
    for number in range(30):
        cv2.imwrite(str(folder / f"{number}.png"), rng.integers(0, 8 * number + 9, (20, 24, 3)).astype(np.uint8))
    return folder


def test_a_distillation(edgemeta: Callable[..., Any], network: Path, pictures: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    out = tmp_path / "net.safetensors"
    command = ("quantize", network, "--calibrate", pictures, "--images", 10, "--distill", pictures, "--out", out)
    done = edgemeta(*command, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["distill_pictures"] == 30
    assert found["tried"][-1]["choice"].endswith(", distilled")
    assert found["choice"] == min(found["tried"], key=lambda each: each["error"])["choice"]
    assert load(out).provenance["distill_pictures"] == 30
    stages = [line.split(" ", 2)[1:] for line in done.stderr.splitlines() if line.startswith("edgemeta: ")]
    assert ["11/13", "distilling, about"] in [[each[0], each[1].split(" about")[0] + " about"] for each in stages]
    printed = edgemeta(*command)
    is_kept = found["choice"].endswith(", distilled")
    assert ("distilled on 30 pictures, but not kept: multiplier, " in printed.stdout) != is_kept


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--scheme", "paper", "--distill", "x"), "--distill is for --scheme auto, found paper"),
        (
            ("--calibrate", "{pictures}", "--distill", "nowhere"),
            "nowhere does not exist, expected a data set, a folder",
        ),
        (
            ("--calibrate", "{pictures}", "--distill", "{few}"),
            "a distillation has 5 pictures that do not judge it, expected at least 8",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    edgemeta: Callable[..., Any],
    network: Path,
    pictures: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    sentence: str,
) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    out, few = tmp_path / "net.safetensors", tmp_path / "few"
    few.mkdir()
    for number in range(5):
        cv2.imwrite(str(few / f"{number}.png"), np.full((20, 24, 3), 40 * number, np.uint8))
    done = edgemeta("quantize", network, *(each.format(pictures=pictures, few=few) for each in options), "--out", out)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert not out.exists()
