"""`edgemeta train` as a user runs it: own pictures, Ctrl-C, kill -9, wrong usage."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.model.float_file import load_float_model

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

SMALL = ("--size", 24, "--depth", 8, "--width", 0.25, "--threads", 1)


def draw(folder: Path, seed: int) -> Path:
    """Ten pictures each of a gate that is closed (dark) and open (bright)."""
    rng = np.random.default_rng(seed)
    for number, label in enumerate(("closed", "open")):
        (folder / label).mkdir(parents=True)
        for each in range(10):
            pixels = rng.integers(0, 90, (40, 52, 3)) + 150 * number
            assert cv2.imwrite(str(folder / label / f"{each}.png"), pixels.astype(np.uint8))
    return folder


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return draw(tmp_path / "gate", 0)


def arguments(gate: Path, folder: Path, epochs: int, out: Path | None = None) -> list[str]:
    parts = ("--data", gate, "--folder", folder, "--out", out or folder.with_suffix(".safetensors"))
    return [*map(str, ("train", *parts, "--epochs", epochs, *SMALL))]


@pytest.mark.gate("4 s: a process that imports PyTorch and trains")
def test_own_pictures_become_a_float_model(edgemeta: Callable[..., Any], gate: Path, tmp_path: Path) -> None:
    test = draw(tmp_path / "later", 1)
    done = edgemeta(*arguments(gate, tmp_path / "run", 15), "--test", test)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path / 'run.safetensors'}: resnet8-w0.25-gate, resnet8-w0.25 of 24x24 pixels, 2")
    assert lines[1].startswith("top-1 100.00 % of 2 images held out")
    assert lines[2] == "top-1 100.00 % of 20 test images"
    assert lines[5].split() == ["1", "closed", "100", "%", "10", "."]
    assert lines[-2] == f"the same as a picture: {tmp_path / 'run' / 'confusion.png'}"
    held_out = tmp_path / "run" / "validation.npz"
    assert lines[-1] == (
        f"next: edgemeta quantize {tmp_path / 'run.safetensors'} --calibrate {gate} --held-out {held_out} --out MODEL"
    )
    assert max(map(len, lines[4:7])) <= 80


@pytest.mark.gate("8 s: a training, a quantization and an evaluation, each a process")
def test_from_pictures_to_a_model_that_runs(
    edgemeta: Callable[..., Any], edgemeta_json: Callable[..., Any], gate: Path, tmp_path: Path
) -> None:
    trained = edgemeta_json(*arguments(gate, tmp_path / "run", 15))
    assert (trained["top1"], trained["validation_top1"]) == (None, 100.0)
    assert trained["recall"] == {"closed": 100.0, "open": 100.0}
    assert trained["confusion"] == [[1, 0], [0, 1]]
    out = tmp_path / "gate-int8.safetensors"
    later = draw(tmp_path / "later", 1)
    held_out = ("--held-out", trained["held_out"])
    quantized = edgemeta("quantize", trained["path"], "--calibrate", gate, *held_out, "--out", out)
    assert quantized.returncode == 0, quantized.stderr
    assert "edgemeta: there is no clear mistake among 2 held-out images, so the temperature" in quantized.stderr
    measured = edgemeta_json("eval", out, "--data", later)
    assert (measured["top1"], measured["images"]) == (100.0, 20)


def test_the_defaults_in_the_help_are_those_of_the_recipe(edgemeta: Callable[..., Any]) -> None:
    """The command does not import PyTorch for its help, so the numbers stand there once more."""
    from edgemeta.toolchain.train.boxes.network import GridDesign
    from edgemeta.toolchain.train.designs import ALEXNET, MOBILENET, RESNET, VGG
    from edgemeta.toolchain.train.pictures_data import SIZE
    from edgemeta.toolchain.train.pictures_recipe import PicturesRecipe

    text = " ".join(edgemeta("train", "--help").stdout.split())
    side, _ = GridDesign.size
    assert f"Passes over the pictures. [default: {PicturesRecipe().epochs}]" in text
    assert ALEXNET.width == VGG.width
    widths = f"{RESNET.width:g} for resnet, {MOBILENET.width:g} for mobilenetv2, {VGG.width:g} for vgg16 and alexnet"
    assert f"[default: {widths}]" in text
    assert f"Layers of a residual network. [default: {RESNET.depth}]" in text
    assert f"[default: that of --start; else {SIZE}, or that of the images of a file; detection: {side}]" in text


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("resnet8-cifar10",), "Missing option '--test', which a RECIPE needs"),
        (("resnet8-cifar10", "--test", "x", "--size", "64"), "--epochs are given by the RECIPE"),
        (("--alternates", "x"), "--alternates needs a RECIPE"),
        (("--size", "20"), "20 is not in the range 24<=x<=640"),
        (("--depth", "9"), "'9' is not one of '8', '14', '20'"),
        (("--network", "vgg"), "'vgg' is not one of 'resnet', 'mobilenetv2'"),
    ],
)
def test_wrong_usage(edgemeta: Callable[..., Any], more: tuple[str, ...], sentence: str) -> None:
    done = edgemeta("train", "--data", "d", "--folder", "f", "--out", "o", *more)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_errors_are_one_sentence_and_come_before_the_training(
    edgemeta: Callable[..., Any], gate: Path, tmp_path: Path
) -> None:
    done = edgemeta(*arguments(gate, tmp_path / "run", 2, tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"edgemeta: {tmp_path}: is a folder, expected the name of the file ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.gate("6 s: processes that import PyTorch")
def test_a_fresh_start_says_what_it_deletes(edgemeta: Callable[..., Any], gate: Path, tmp_path: Path) -> None:
    assert edgemeta(*arguments(gate, tmp_path / "run", 1)).returncode == 0
    other = draw(tmp_path / "other", 3)
    refused = edgemeta(*arguments(other, tmp_path / "run", 1))
    assert refused.returncode == 1
    assert "made with other training data" in refused.stderr
    fresh = edgemeta(*arguments(other, tmp_path / "run", 1), "--fresh")
    assert fresh.returncode == 0
    assert fresh.stderr == f"edgemeta: {tmp_path / 'run'}: deleted the run in it (5 files) to start afresh\n"


@pytest.mark.gate("6 s: processes that import PyTorch, on a terminal")
def test_ctrl_c_on_a_terminal(gate: Path, tmp_path: Path) -> None:
    """A bar with loss, accuracy and an estimate; Ctrl-C says how to continue; the same command continues."""
    command = [str(Path(sys.executable).with_name("edgemeta")), *arguments(gate, tmp_path / "run", 3000)]
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover (another process)
        os.execv(command[0], command)
    shown = ""
    for text in read(terminal):
        shown += text
        if "left" in shown and "accuracy" in shown:
            os.write(terminal, b"\x03")
            break
    for text in read(terminal):
        shown += text
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert "epoch 2/3000, loss 0." in shown
    last = shown.strip().splitlines()[-1]
    assert last.startswith("interrupted, ")
    assert last.endswith(" of 3000 epochs are kept; the same command continues (--fresh starts afresh)")
    kept = int(last.split()[1])
    assert torch.load(tmp_path / "run" / "network.pt", weights_only=True)["epoch"] == kept
    assert "Traceback" not in shown


def read(terminal: int) -> Iterator[str]:
    """What a terminal shows, until its process ends."""
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            return
        if not data:
            return
        yield data.decode(errors="replace")


@pytest.mark.gate("40 s: ten processes, most of them killed")
def test_a_kill_at_any_moment_loses_no_more_than_an_epoch(gate: Path, tmp_path: Path) -> None:
    """Killed in epochs, while checkpoints are written, and while the model is exported; then it ends as if never."""
    epochs, run = 60, tmp_path / "run"
    out, log = run.with_suffix(".safetensors"), run / "log.jsonl"
    command = str(Path(sys.executable).with_name("edgemeta"))
    rng, reached = np.random.default_rng(0), []
    for goal in (*range(0, 55, 10), epochs, epochs):
        process = subprocess.Popen([command, *arguments(gate, run, epochs)], stdout=subprocess.DEVNULL)
        while len(lines(log)) < goal and process.poll() is None:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.05)) + (0.0 if goal else 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (run / "network.pt").exists():
            kept = torch.load(run / "network.pt", weights_only=True)["epoch"]
            assert kept >= max((json.loads(line)["epoch"] for line in lines(log)), default=0)
            reached.append(kept)
        if out.exists():
            load_float_model(out)
    assert reached == sorted(reached)
    assert reached[-1] == epochs
    whole = tmp_path / "whole"
    for folder in (run, whole):
        done = subprocess.run([command, *arguments(gate, folder, epochs)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert out.read_bytes() == whole.with_suffix(".safetensors").read_bytes()
    seen = [json.loads(line)["epoch"] for line in lines(log)]
    assert seen == sorted(set(seen))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
