"""`edgemeta import`: a float model of an ONNX file, which the other commands take."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.topologies import Network, write_topology


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = Network("small", 32, 1, classes=10)
    x = net.conv(net.conv("images", 8, 3, 2, act="Silu"), 8, groups=8, act="HardSwish")
    logits = net.dense(net.flat(net.mean(net.gated(x, 4))), 10)
    return net.write(tmp_path_factory.mktemp("onnx") / "small.onnx", logits)


def test_a_network_is_imported_and_says_what_to_do_next(
    edgemeta: Callable[..., Any], network: Path, tmp_path: Path
) -> None:
    out = tmp_path / "net.safetensors"
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"thing {i}" for i in range(10)) + "\n")
    pixels = ("--mean", "123.675,116.28,103.53", "--std", "58.395,57.12,57.375")
    done = edgemeta("import", network, "--out", out, *pixels, "--labels", labels, "--name", "things")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{out}: things, image 32x32, 3 channels"
    assert lines[-1] == f"next: edgemeta quantize {out} --calibrate IMAGES --out MODEL"


def test_a_small_network_is_quantized_and_classifies(
    edgemeta: Callable[..., Any], edgemeta_json: Callable[..., Any], network: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (20, 4, 4, 3)).astype(np.uint8).repeat(8, 1).repeat(8, 2)
    data, out, model = (tmp_path / name for name in ("data.npz", "float.safetensors", "net.safetensors"))
    np.savez(data, x=images, y=np.arange(20) % 10)
    values = edgemeta_json("import", network, "--out", out, "--mean", "128", "--std", "64")
    assert values["outputs"] == {next(iter(values["outputs"])): [1, 1, 10]}
    assert values["labels"] == 10
    done = edgemeta("quantize", out, "--calibrate", data, "--images", 20, "--out", model)
    assert done.returncode == 0, done.stderr
    assert edgemeta_json("verify", model, "--data", data, "--backend", "cpu")["mismatches"] == 0


def test_a_detection_is_imported_and_shown(
    edgemeta: Callable[..., Any], edgemeta_json: Callable[..., Any], tmp_path: Path
) -> None:
    net = Network("detector", 32, 2)
    x, outputs = net.conv("images", 8, 3, 2), []
    for _ in range(2):
        x = net.conv(x, 8, 3, 2)
        outputs += [net.conv(x, channels, 1, norm=False, act="") for channels in (4, 1, 3)]
    path, out = net.write(tmp_path / "net.onnx", *outputs), tmp_path / "net.safetensors"
    (tmp_path / "net.onnx.yaml").write_text("labels: [cat, dog, bird]\ncrop: letterbox\nfill: 114\n")
    values = edgemeta_json("import", path, "--out", out, "--colour", "bgr")
    assert (values["task"], values["decoding"], values["labels"]) == ("detection", "yolox", 3)
    assert list(values["outputs"].values()) == [[8, 8, 4], [8, 8, 1], [8, 8, 3], [4, 4, 4], [4, 4, 1], [4, 4, 3]]
    shown = edgemeta_json("model", "info", out)
    assert shown["kind"] == "float model"
    assert shown["labels"] == ["cat", "dog", "bird"]
    assert shown["input"] == {"shape": [32, 32, 3], "colour": "bgr", "crop": "letterbox"}
    done = edgemeta("model", "info", out)
    lines = done.stdout.splitlines()
    assert lines[0] == "net: a float model, before quantization; the service runs integer models"
    assert lines[-1] == f"next: edgemeta quantize {out} --calibrate IMAGES --out MODEL"


@pytest.mark.gate("imports four networks of usual size, one of them from the shared data")
def test_the_commands_of_the_page_run(
    edgemeta: Callable[..., Any], repository: Path, shared_data: Path, tmp_path: Path
) -> None:
    page = (repository / "docs" / "detection.md").read_text("utf-8")
    (tmp_path / "ssd.yaml").write_text(page.split("`ssd.yaml`:\n\n```yaml\n")[1].split("```")[0])
    shutil.copy(shared_data / "networks" / "yolox_nano.onnx", tmp_path)
    for topology, name in (("yolo_v8n", "yolov8n"), ("yolo_v3_tiny", "yolov3-tiny"), ("ssd_mobilenet", "ssd")):
        write_topology(topology, tmp_path).rename(tmp_path / f"{name}.onnx")
    commands = re.findall(r"^edgemeta (import (?:.*\\\n)*.*)$", page, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        files = (".onnx", ".safetensors", ".yaml")
        done = edgemeta(*(tmp_path / word if word.endswith(files) else word for word in words))
        assert done.returncode == 0, done.stderr
        assert "task detection" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mean", "1,2"), "--mean has 2 numbers, expected 1 or 3, finite"),
        (("--std", "0"), "--std is 0, expected numbers above 0"),
        (("--colour", "gray"), "takes images of 3 channels, found colour gray"),
        (("--size", "64x64"), "the input is 32x32, found --size 64x64"),
    ],
)
def test_wrong_options_get_one_sentence(
    edgemeta: Callable[..., Any],
    one_sentence: Callable[..., Any],
    network: Path,
    tmp_path: Path,
    arguments: Any,
    said: str,
) -> None:
    out = tmp_path / "net.safetensors"
    one_sentence(edgemeta("import", network, "--out", out, *arguments), said)
    assert not out.exists()


def test_a_file_that_is_no_network_gets_one_sentence(
    edgemeta: Callable[..., Any], one_sentence: Callable[..., Any], tmp_path: Path
) -> None:
    one_sentence(edgemeta("import", __file__, "--out", tmp_path / "net"), "found no ONNX network")
