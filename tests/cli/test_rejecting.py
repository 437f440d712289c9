"""`edgemeta model reject`: the written model, its figures, the picture, and one sentence for each mistake."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load, save
from edgemeta.model.zoo import find
from edgemeta.toolchain.reject.evidence import without_rejection


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.safetensors"
    save(without_rejection(load(find("resnet8-cifar10"))), path)
    return path


def test_a_model_gets_a_rule(edgemeta_json, edgemeta, labelled: Path, plain: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "wall.png"), np.full((60, 80, 3), 99, np.uint8))
    out = tmp_path / "out.safetensors"
    values = edgemeta_json("model", "reject", plain, "--held-out", labelled, "--foreign", tmp_path / "wall.png",
                           "--lost", 10, "--plot", tmp_path / "p.png", "--out", out)  # fmt: skip
    model = load(out)
    assert values["sha256"] == model.digest
    assert values["threshold"] == model.task.rejection.threshold
    assert list(values["foreign"]) == [str(tmp_path / "wall.png")]
    assert cv2.imread(str(tmp_path / "p.png")).shape[1] == 760
    info = edgemeta_json("model", "info", out)
    assert info["task_settings"]["rejection"] == {"threshold": values["threshold"], "outputs": []}
    assert f"unknown below {values['threshold']} of the greatest logit" in edgemeta("model", "info", out).stdout


def test_mistakes_are_one_sentence(edgemeta, one_sentence, labelled: Path, plain: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out.safetensors")
    missing = tmp_path / "nothing"
    one_sentence(edgemeta("model", "reject", plain, "--held-out", missing, *out), str(missing))
    one_sentence(
        edgemeta("model", "reject", plain, "--held-out", labelled, "--foreign", missing, *out),
        f"{missing}: does not exist, expected a folder of pictures, a data set, a picture or a video",
    )
    assert not (tmp_path / "out.safetensors").exists()
