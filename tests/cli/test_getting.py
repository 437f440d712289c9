"""`edgemeta model get`: from a server on loopback to the model that everybody gets."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemeta.cli import getting
from edgemeta.cli.getting import made_of, numbered
from edgemeta.model.file import load
from edgemeta.model.known.registry import Accuracy, KnownNetwork, RemoteFile, known_networks
from edgemeta.model.tasks import task_name
from edgemeta.toolchain.known.download import MIRROR
from tests.toolchain.importer.tflite_cases import int8_dense, written_int8
from tests.toolchain.known.file_server import Served, serving

FOLDER = f"https://raw.githubusercontent.com/somebody/things/{'b' * 40}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A mirror without files, and an empty cache."""
    with serving() as server:
        monkeypatch.setenv(MIRROR, server.address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield server


def offered(server: Served, file: RemoteFile, content: bytes) -> None:
    server.files[f"/{file.address.removeprefix('https://')}"] = content


def remote(name: str, content: bytes) -> RemoteFile:
    return RemoteFile(address=f"{FOLDER}/{name}", sha256=hashlib.sha256(content).hexdigest(), size=len(content))


@pytest.fixture
def small(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with the entry `small`, whose files are on the mirror; gives its file, under another name."""
    path = written_int8(int8_dense, tmp_path)
    content, words = path.read_bytes(), b"crane\ncrane\ncat\ndog\nbird\n"
    (tmp_path / "words.txt").write_bytes(words)
    network = KnownNetwork(
        what="five things",
        task="classification",
        licence="MIT",
        file=remote("small.tflite", content),
        labels=remote("words.txt", words),
        settings={"mean": 128, "std": 50},
        gives="integer",
        digest="0" * 64,
        accuracy=Accuracy(figure="all right", command="true"),
    )
    made, _ = made_of("small", network, path, tmp_path / "words.txt")
    network = network.model_copy(update={"digest": hashlib.sha256(made).hexdigest()})
    monkeypatch.setattr(getting, "known_network", {"small": network}.__getitem__)
    offered(served, network.file, content)
    assert network.labels is not None
    offered(served, network.labels, words)
    return path.rename(tmp_path / "mine.tflite")


def test_a_network_is_downloaded_and_made(
    small: Path, served: Served, edgemeta_json: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "net.safetensors"
    values = edgemeta_json("model", "get", "small", "--out", out)
    model = load(out)
    assert (model.name, model.digest) == ("small", values["sha256"])
    assert model.labels == ("crane", "crane 2", "cat", "dog", "bird")
    assert (values["licence"], values["quantized"], len(served.asked)) == ("MIT", True, 2)
    assert edgemeta_json("model", "get", "small", "--out", out)["sha256"] == values["sha256"]
    assert len(served.asked) == 2


def test_the_user_has_the_file_and_no_network(
    small: Path, served: Served, edgemeta: Callable[..., Any], tmp_path: Path
) -> None:
    edgemeta("model", "get", "small", "--out", tmp_path / "first.safetensors")
    served.files.clear()
    done = edgemeta("model", "get", "small", "--from", small, "--out", tmp_path / "net.safetensors")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"it runs as it is: edgemeta predict {tmp_path}/net.safetensors IMAGE"
    assert (tmp_path / "net.safetensors").read_bytes() == (tmp_path / "first.safetensors").read_bytes()


def test_another_model_than_expected_is_not_written(
    small: Path,
    edgemeta: Callable[..., Any],
    one_sentence: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    network = getting.known_network("small").model_copy(update={"digest": "1" * 64})
    monkeypatch.setattr(getting, "known_network", {"small": network}.__getitem__)
    done = edgemeta("model", "get", "small", "--out", tmp_path / "net.safetensors")
    one_sentence(done, "small: what this edgemeta makes of it", f"expected {'1' * 64}: nothing is written")
    assert not (tmp_path / "net.safetensors").exists()


def test_what_cannot_be_had_is_one_sentence(
    served: Served, edgemeta: Callable[..., Any], one_sentence: Callable[..., None], tmp_path: Path
) -> None:
    one_sentence(edgemeta("model", "get", "yolox-nan"), "no known network 'yolox-nan', expected yolox-nano")
    one_sentence(edgemeta("model", "get", "yolox-nano"), "the file is no longer there (404 Not Found)")
    (tmp_path / "net.onnx").write_bytes(b"something")
    one_sentence(edgemeta("model", "get", "yolox-nano", "--from", tmp_path / "net.onnx"), "net.onnx: is another file")


def test_known_networks_are_listed(edgemeta: Callable[..., Any], edgemeta_json: Callable[..., Any]) -> None:
    networks = edgemeta_json("model", "get", "--list")["networks"]
    assert list(networks) == list(known_networks())
    assert networks["visual-wake-words"]["licence"] == "Apache-2.0"
    lines = edgemeta("model", "get", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(networks)
    assert edgemeta("model", "get").returncode == 2


def test_labels_that_repeat_get_a_number() -> None:
    assert numbered(["crane", "cat", "crane", "crane"]) == ("crane", "cat", "crane 2", "crane 3")


ULTRAFACE = "Linzaer__Ultra-Light-Fast-Generic-Face-Detector-1MB__version-RFB-320_simplified.onnx"
FILES = {
    "visual-wake-words": "networks/vww_96_int8.tflite",
    "visual-wake-words-float": "networks/vww_96_float.tflite",
    "resnet8-cifar10-mlperf": "mlperf_tiny/pretrainedResnet_quant.tflite",
    "ultraface-rfb": f"networks/real/{ULTRAFACE}",
    "yunet": "networks/real/ShiqiYu__libfacedetection.train__yunet_n_320_320.onnx",
}
"""Files of the registry that are test data."""


@pytest.mark.parametrize("name", FILES)
def test_the_models_of_the_registry_are_made_of_its_files(
    name: str, served: Served, edgemeta: Callable[..., Any], shared_data: Path, tmp_path: Path
) -> None:
    offered(served, known_networks()[name].file, (shared_data / FILES[name]).read_bytes())
    network = known_networks()[name]
    done = edgemeta("model", "get", name, "--out", tmp_path / "net.safetensors")
    assert done.returncode == 0, done.stderr
    assert digest_of(tmp_path / "net.safetensors") == network.made().digest
    if network.gives_integers(as_float=False):
        assert task_name(load(tmp_path / "net.safetensors").task) == network.task
    if network.recorded is not None:
        done = edgemeta("model", "get", name, "--float", "--out", tmp_path / "float.safetensors")
        assert done.returncode == 0, done.stderr
        assert digest_of(tmp_path / "float.safetensors") == network.digest
        assert "next: edgemeta quantize" in done.stdout


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_integers_have_no_float_model(
    small: Path, edgemeta: Callable[..., Any], one_sentence: Callable[..., None], tmp_path: Path
) -> None:
    done = edgemeta("model", "get", "small", "--float", "--out", tmp_path / "net.safetensors")
    one_sentence(done, "small: its file holds integers, expected a float network for --float")
