"""Networks of other programs are trained here: `--scheme incremental`, `simulate train` with a teacher, its export."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.weights import PowerOfTwoWeights

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")
pytest.importorskip("onnx", reason="onnx is not installed (pip install 'edgemeta[import]')")

SIDE = 32
LABELS = ("dark", "light")
RULES = [
    {"layers": "*", "weight": {"kind": "int", "bits": 4, "symmetric": True, "per_channel": True}},
    {"layers": "gemm*", "weight": "int8_symmetric"},
]


def write_images(path: Path, count: int, labels: tuple[str, ...], seed: int) -> Path:
    """Images of classes that differ in brightness."""
    rng, y = np.random.default_rng(seed), np.arange(count) % len(labels)
    x = (rng.integers(0, 150, (count, SIDE, SIDE, 3)) + 50 * y[:, None, None, None]).astype(np.uint8)
    np.savez(path, x=x, y=y, labels=np.array(labels))
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Images to train with, and to test with."""
    folder = tmp_path_factory.mktemp("set")
    return write_images(folder / "train.npz", 160, LABELS, 5), write_images(folder / "test.npz", 40, LABELS, 6)


@pytest.fixture(scope="module")
def network(edgemeta_json: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of MobileNetV2's blocks, from an ONNX file, whose input is not normalized as ours."""
    from benchmarks.topologies import Network, inverted

    folder = tmp_path_factory.mktemp("net")
    net = Network("small", SIDE, 7, len(LABELS))
    x = net.conv("images", 8, 3, 2, act="Relu6")
    x = inverted(net, inverted(net, x, 2, 12, 2, "Relu6"), 2, 12, 1, "Relu6")
    source, out = folder / "small.onnx", folder / "float.safetensors"
    net.write(source, net.dense(net.flat(net.mean(x)), net.classes))
    (folder / "labels.txt").write_text("\n".join(LABELS))
    edgemeta_json("import", source, "--labels", folder / "labels.txt", "--mean", 120, "--std", 60, "--colour", "bgr",
                  "--out", out)  # fmt: skip
    return out


@pytest.mark.gate("trainings in processes of their own")
def test_incremental_quantization(
    edgemeta: Callable[..., Any], network: Path, images: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    done = edgemeta(
        *("quantize", network, "--scheme", "incremental", "--bits", 5, "--shares", "0.5,1", "--epochs", 2),
        *("--train", images[0], "--folder", tmp_path / "run", "--threads", 1, "--out", out),
    )
    assert done.returncode == 0, done.stderr
    model = load(out)
    assert model.provenance["validation_images"] == 16
    kinds = {type(layer.weights) for layer in model.layers if isinstance(layer, Conv | Dense)}
    assert kinds == {PowerOfTwoWeights}
    verified = edgemeta("verify", out, "--data", images[0], "--backend", "cpu")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.gate("trainings in processes of their own")
def test_training_under_rules_and_its_export(
    edgemeta: Callable[..., Any], network: Path, images: tuple[Path, Path], tmp_path: Path
) -> None:
    config, out = tmp_path / "c.yaml", tmp_path / "out.safetensors"
    entries = {"start": str(network), "epochs": 2, "batch": 16, "lr": 0.01, "soft": 0.5, "rules": RULES}
    config.write_text(yaml.safe_dump(entries))
    data = ("--config", config, "--data", images[0], "--test", images[1], "--folder", tmp_path / "run")
    for command in (("train", *data), ("export", *data, "--out", out)):
        done = edgemeta("simulate", *command)
        assert done.returncode == 0, done.stderr
    model = load(out)
    batch = np.zeros((1, *model.input.shape), model.input.dtype)
    assert reference.run(model, batch)[0].shape == (1, 1, 1, len(LABELS))
    assert model.provenance["scheme"] == "trained under rules"


def test_a_data_set_of_other_classes(
    edgemeta: Callable[..., Any], one_sentence: Any, network: Path, tmp_path: Path
) -> None:
    files = [write_images(tmp_path / f"{seed}.npz", 6, ("a", "b", "c"), seed) for seed in (1, 2)]
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump({"start": str(network), "epochs": 1, "batch": 2}))
    data = ("--data", files[0], "--test", files[1], "--folder", tmp_path / "run")
    one_sentence(
        edgemeta("simulate", "train", "--config", config, *data),
        f"{files[0]}: has 3 classes (a, ...), expected the 2 of {network} (dark, ...)",
    )
