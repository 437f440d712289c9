"""`simulate eval`: the accuracy and the integers of a model in PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.tasks import MultiLabel
from edgemeta.model.zoo import find
from tests.tasks.models import vector_model

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.session import SimulatedSession


@pytest.mark.parametrize(
    "name",
    [
        "resnet8-cifar10",
        *(
            pytest.param(f"resnet8-cifar10-{scheme}", marks=pytest.mark.gate("5 s: two runs of the command"))
            for scheme in ("paper", "pot5")
        ),
    ],
)
def test_every_integer_is_the_references(edgemeta: Any, edgemeta_json: Any, labelled: Path, name: str) -> None:
    result = edgemeta_json("simulate", "eval", name, "--data", labelled)
    same = edgemeta_json("eval", name, "--data", labelled, "--backend", "reference")
    assert result == {"top1": same["top1"], "images": 40, "mismatches": 0, "sha256": load(find(name)).digest}
    text = edgemeta("simulate", "eval", name, "--data", labelled).stdout
    assert "40 images, 0 mismatches against the reference in" in text


def test_a_model_of_another_task(edgemeta: Any, labelled: Path, tmp_path: Path) -> None:
    save(vector_model(MultiLabel(tuple("abc")), 3), tmp_path / "tags.safetensors")
    done = edgemeta("simulate", "eval", tmp_path / "tags.safetensors", "--data", labelled)
    assert done.returncode == 1
    assert "its task is multi-label, accuracy is measured for classification only" in done.stderr


def test_a_wrong_integer_anywhere_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one tensor of one image of five, in a layer that is no output."""
    model = load(find("resnet8-cifar10"))
    session = SimulatedSession(model)
    batch = np.random.default_rng(1).integers(-128, 128, (5, *model.input.shape)).astype(model.input.dtype)
    outputs = session.run(batch)
    for found, expected in zip(outputs, reference.run(model, batch), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert (session.images, session.mismatches) == (5, 0)
    trace = reference.trace

    def changed(*arguments: Any) -> dict[str, Any]:
        tensors = trace(*arguments)
        tensors[model.layers[2].name][3, 0, 0, 0] ^= 1
        return tensors

    monkeypatch.setattr(reference, "trace", changed)
    session.run(batch)
    assert (session.images, session.mismatches) == (10, 1)


@pytest.fixture
def training(tmp_path: Path) -> list[str]:
    """The options of `simulate train` for sixteen small pictures that are dark or bright."""
    y = np.arange(16) % 2
    x = (np.random.default_rng(1).integers(0, 100, (16, 24, 24, 3)) + 120 * y[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "train.npz", x=x, y=y, labels=np.array(["dark", "bright"]))
    np.savez(tmp_path / "test.npz", x=x[:7, :, ::-1], y=y[:7], labels=np.array(["dark", "bright"]))
    rules = [{"layers": "*", "activation": "bfloat16", "weight": "bfloat16"}]
    config = {"network": {"width": 0.25}, "epochs": 2, "batch": 8, "rules": rules}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    options = {"config": "config.yaml", "data": "train.npz", "test": "test.npz", "folder": "run"}
    return [word for name, file in options.items() for word in (f"--{name}", str(tmp_path / file))]


def test_training(edgemeta: Any, training: list[str], tmp_path: Path) -> None:
    done = edgemeta("simulate", "train", *training)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{tmp_path / 'run'}: top-1 ")
    assert " of 7 test images after 2 epochs (sha256 " in first
    assert second == f"learning curves: {tmp_path / 'run' / 'curves.html'}"
    assert (tmp_path / "run" / "curves.html").exists()


@pytest.mark.gate("15 s: torchrun with two workers, then one process")
def test_training_by_torchrun(edgemeta_json: Any, training: list[str], tmp_path: Path) -> None:
    """The first worker alone prints; another number of workers takes the finished run for its own."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    verb = [str(Path(sys.executable).with_name("edgemeta")), "simulate", "train", *training, "--json"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *verb], capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    result = json.loads(done.stdout)
    assert (result["epochs"], result["images"], result["folder"]) == (2, 7, str(tmp_path / "run"))
    assert edgemeta_json("simulate", "train", *training) == result


def test_a_wrong_config_is_one_sentence(edgemeta: Any, training: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("epochs: 2\nrules:\n  - {layers: '*', weight: int7}\n")
    done = edgemeta("simulate", "train", *training)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"edgemeta: {tmp_path / 'config.yaml'} line 3: rules.0.weight: found the format 'int7'"
    )
    assert done.stderr.count("\n") == 1
