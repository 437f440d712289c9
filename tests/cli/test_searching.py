"""`edgemeta search`, and the example configs in a small form."""

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgemeta.model.file import load
from edgemeta.toolchain.search.config import load_search
from edgemeta.toolchain.search.run import search
from tests.toolchain.search.conftest import decomposed_once, undrawn, workshop  # noqa: F401 (fixtures)

EXAMPLES = (
    "alexnet-accurate",
    "alexnet-binary",
    "resnet8-binary",
    "resnet8-budget",
    "resnet8-fixed",
    "resnet8-front",
    "resnet8-power-of-two",
)
ELSEWHERE = ("resnet8-trained", "yolov3-tiny-accurate", "yolov3-tiny-binary")
"""Tested in tests/toolchain/search: test_trial_training.py, test_detection.py."""
SMALL = {"held_out": {"share": 0.5}, "calibration": 10, "images": 60, "rungs": [20], "sensitivity": 20, "trials": 4}


def test_a_search_and_its_files(edgemeta: Callable[..., Any], workshop: Path, tmp_path: Path) -> None:  # noqa: F811
    entries = {"name": "tiny", "network": str(workshop / "float.safetensors"), **SMALL}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(entries))
    data, folder = workshop / "data.npz", tmp_path / "run"
    options = ("--config", path, "--data", data, "--folder", folder, "--test", data)
    done = edgemeta("search", *options, "--trials", 5, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["trials"] == 5
    assert set(found["best"]) >= {"objective", "accuracy", "bytes", "weights", "features"}
    assert found["front"]
    assert found["test_accuracy"] is not None
    assert json.loads((folder / "search.json").read_text()) == found
    assert "<svg" in (folder / "report.html").read_text()
    again = edgemeta("search", *options, "--trials", 6)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("6 trials, ")
    assert "on the Pareto front" in again.stdout


@pytest.mark.usefixtures("undrawn")
def test_a_network_that_is_no_better_than_chance_has_its_report(
    edgemeta: Callable[..., Any],
    workshop: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Here each image is named as what it is not."""
    with np.load(workshop / "data.npz") as data:
        np.savez(tmp_path / "data.npz", x=data["x"], y=(data["y"] + 1) % 3, labels=data["labels"])
    path, folder = tmp_path / "chance.yaml", tmp_path / "run"
    network = {"network": str(workshop / "float.safetensors"), "scheme": "fixed"}
    path.write_text(yaml.safe_dump({"name": "chance", **network, **SMALL}))
    done = edgemeta("search", "--config", path, "--data", tmp_path / "data.npz", "--folder", folder, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "search.json").read_text())
    assert json.loads(done.stdout) == found
    assert found["trials"] == 4
    (remark,) = found["remarks"]
    assert re.match(
        r"no temperature can be fitted to 135 held-out images .*: the scores keep the temperature 1", remark
    )
    assert remark in done.stderr
    assert escape(remark) in (folder / "report.html").read_text()
    assert load(folder / "best.safetensors").task.temperature == 1
    assert found["training"] == str(folder / "training.yaml")
    assert (folder / "training.yaml").is_file()


@pytest.mark.usefixtures("undrawn")
def test_test_images_that_cannot_be_read_leave_the_report(
    edgemeta: Callable[..., Any],
    workshop: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    path, folder = tmp_path / "tiny.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump({"name": "tiny", "network": str(workshop / "float.safetensors"), **SMALL}))
    options = ("--config", path, "--data", workshop / "data.npz", "--folder", folder, "--test", tmp_path / "none.npz")
    done = edgemeta("search", *options)
    assert (done.returncode, done.stderr.count("none.npz")) == (1, 1)
    found = json.loads((folder / "search.json").read_text())
    assert (found["trials"], found["model"]) == (4, None)
    assert "Pareto front" in (folder / "report.html").read_text()


def test_a_mistake_is_one_sentence(edgemeta: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    done = edgemeta("search", "--config", path, "--folder", tmp_path / "run")
    assert (done.returncode, done.stderr) == (1, f"edgemeta: {path} cannot be read: No such file or directory\n")
    path.write_bytes(b"\xff")
    assert edgemeta("search", "--config", path, "--folder", path).stderr.endswith("read: it is no text (UTF-8)\n")
    path.write_text("network: x\nname: y\ntrails: 3\n")
    done = edgemeta("search", "--config", path, "--folder", tmp_path / "run")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "line 3: trails" in done.stderr
    path.write_text("network: resnet8-cifar10-float\nname: y\ndata: x.npz\n")
    done = edgemeta("search", "--config", path, "--folder", path)
    sentence = f"edgemeta: {path / 'report.html'}: cannot be written (File exists)\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_every_example_is_tested(repository: Path) -> None:
    assert sorted(path.stem for path in (repository / "configs" / "search").glob("*.yaml")) == sorted(
        EXAMPLES + ELSEWHERE
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_a_small_form(repository: Path, workshop: Path, tmp_path: Path, name: str) -> None:  # noqa: F811
    given = load_search(repository / "configs" / "search" / f"{name}.yaml")
    assert given.network in ("resnet8-cifar10-float", "alexnet-quarter-float.safetensors")
    small = {**SMALL, "network": str(workshop / "float.safetensors"), "data": str(workshop / "data.npz"), "seeds": 2}
    entries = {**given.model_dump(mode="json"), **small}
    searched = search(type(given).model_validate(entries), tmp_path)
    assert len(searched.trials) == 4
