"""`edgemeta quantize --scheme incremental`: killed in the middle it continues with the same bits; bad options."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.zoo import find

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small float network of two classes."""
    import torch

    from edgemeta.model.float_file import save_float_model
    from edgemeta.toolchain.train.designs import Design
    from edgemeta.toolchain.train.networks import build

    torch.manual_seed(2)
    path = tmp_path_factory.mktemp("net") / "float.safetensors"
    save_float_model(build(Design(classes=2, width=0.25)).classification("small", ("off", "on"), {}), path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 images of two classes."""
    rng = np.random.default_rng(5)
    y = np.arange(300) % 2
    x = (rng.integers(0, 150, (300, 32, 32, 3)) + 100 * y[:, None, None, None]).astype(np.uint8)
    path = tmp_path_factory.mktemp("set") / "train.npz"
    np.savez(path, x=x, y=y, labels=np.array(["off", "on"]))
    return path


@pytest.mark.gate("three trainings in processes of their own, 25 s")
def test_a_killed_run_continues_with_the_same_bits(
    edgemeta: Callable[..., Any], network: Path, images: Path, tmp_path: Path
) -> None:
    def arguments(name: str) -> list[object]:
        return [
            *("quantize", network, "--scheme", "incremental", "--bits", 4, "--shares", "0.3,0.8,1", "--epochs", 3),
            *("--train", images, "--folder", tmp_path / name, "--threads", 1),
            *("--out", tmp_path / f"{name}.safetensors", "--json"),
        ]

    whole = edgemeta(*arguments("whole"))
    assert whole.returncode == 0, whole.stderr
    command = [str(Path(sys.executable).with_name("edgemeta")), *map(str, arguments("parts"))]
    log = tmp_path / "parts" / "log.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        deadline = time.monotonic() + 300
        while not (log.exists() and log.read_text().count("\n") >= 2):
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "parts.safetensors").exists()
    continued = edgemeta(*arguments("parts"))
    assert continued.returncode == 0, continued.stderr
    first, second = (json.loads(each.stdout) for each in (whole, continued))
    assert first["sha256"] == second["sha256"]
    assert log.read_text().count("\n") == 9
    model = load(tmp_path / "parts.safetensors")
    assert model.provenance["scheme"] == "incremental"
    assert model.provenance["shares"] == [0.3, 0.8, 1.0]
    assert model.provenance["validation_images"] == 30
    assert first["validation_top1"] == round(100 * float(str(model.provenance["validation_accuracy"])), 4)
    verified = edgemeta("verify", tmp_path / "parts.safetensors", "--data", images, "--backend", "cpu")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scheme", "incremental"], "--scheme incremental needs --train and --folder"),
        (["--scheme", "paper", "--widths", "x"], "--alternates and --widths are for --scheme incremental"),
        (
            ["--scheme", "incremental", "--train", "x", "--folder", "y", "--widths", find("resnet8-cifar10")],
            "resnet8-cifar10.safetensors: was made by scheme auto, expected a search with power-of-two",
        ),
        (["--scheme", "incremental", "--shares", "0.5;1"], "expected numbers with commas between them"),
        (
            ["--scheme", "incremental", "--shares", "0.7,0.2", "--train", "x", "--folder", "y"],
            "expected growing numbers",
        ),
        (["--scheme", "incremental", "--shares", "0.7", "--train", "x", "--folder", "y"], "expected 1 as the last one"),
    ],
)
def test_wrong_options_get_one_sentence(
    edgemeta: Callable[..., Any], network: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    done = edgemeta("quantize", network, *options, "--out", tmp_path / "out.safetensors")
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
