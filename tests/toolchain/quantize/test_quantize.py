"""Verb quantize: a float model file in, an integer model file out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.file import encode, load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import DataError, QuantizeError
from edgemeta.toolchain.quantize.auto import AutoResult, AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.measure import Measured, integer_logits
from edgemeta.toolchain.quantize.paper import PaperScheme
from edgemeta.toolchain.quantize.quantize import LabelledFiles, quantize


@pytest.fixture
def files(tmp_path: Path, every_layer: FloatModel, pixels: Any, classes: Any) -> tuple[Path, Path, Path]:
    """Float model, data set, and where the result goes."""
    save_float_model(every_layer, tmp_path / "float.safetensors")
    np.savez(tmp_path / "data.npz", x=pixels, y=classes)
    return tmp_path / "float.safetensors", tmp_path / "data.npz", tmp_path / "int.safetensors"


@pytest.mark.parametrize("scheme", ["paper", "auto"])
def test_quantize(files: tuple[Path, Path, Path], scheme: str) -> None:
    source, data, out = files
    chosen = PaperScheme() if scheme == "paper" else AutoScheme(Calibration(data))
    result = quantize(source, out, chosen, labelled=LabelledFiles(test=data))
    model = load(out)
    assert model.digest == result.sha256
    assert model.provenance["scheme"] == scheme
    assert isinstance(result.test, Measured)
    assert model.provenance["test_accuracy"] == result.test.accuracy
    assert model.provenance["float_test_accuracy"] == result.test.float_accuracy
    assert result.test.images == 20
    assert result.size == out.stat().st_size
    assert isinstance(result.made, AutoResult) == (scheme == "auto")
    assert isinstance(model.provenance["float_sha256"], str)


@pytest.mark.gate("7 s: a network is quantized twice")
def test_the_same_input_gives_the_same_bytes(files: tuple[Path, Path, Path]) -> None:
    source, data, out = files
    first = quantize(source, out, AutoScheme(Calibration(data)))
    content = out.read_bytes()
    assert quantize(source, out, AutoScheme(Calibration(data))).sha256 == first.sha256
    assert out.read_bytes() == content
    assert first.test is None
    float_name = load(out).name
    quantize(source, out, AutoScheme(Calibration(data)), name="mine")
    assert load(out).name == "mine" != float_name


def test_held_out_images_fit_a_temperature_and_change_nothing_else(
    files: tuple[Path, Path, Path], tmp_path: Path, pixels: Any
) -> None:
    """The plain network names the images, one in five is named otherwise: an unsure network, a wrong-headed one."""
    source, data, out = files
    plain = quantize(source, out, AutoScheme(Calibration(data)))
    network = load(out)
    named = integer_logits(network, Dataset(pixels, np.zeros(20, np.uint8))).argmax(1)
    named[::5] = (named[::5] + 1) % 10
    np.savez(tmp_path / "held.npz", x=pixels, y=named.astype(np.uint8))
    warm = quantize(
        source, out, AutoScheme(Calibration(data)), labelled=LabelledFiles(tmp_path / "held.npz", tmp_path / "held.npz")
    )
    fitted = load(out)
    assert (plain.temperature, network.task.temperature) == (1.0, 1.0)
    assert fitted.task.temperature == warm.temperature != 1.0
    assert isinstance(warm.test, Measured)
    assert warm.test.calibration_error != warm.test.plain_calibration_error
    assert fitted.provenance["held_out_images"] == 20
    bare = replace(fitted, task=network.task, provenance=network.provenance)
    assert encode(bare) == encode(network)


@pytest.mark.gate("6 s: a network is quantized")
def test_held_out_images_without_a_mistake_leave_room_for_one(
    files: tuple[Path, Path, Path], tmp_path: Path, pixels: Any
) -> None:
    source, data, out = files
    plain = quantize(source, out, AutoScheme(Calibration(data), ("minmax",)))
    named = integer_logits(load(out), Dataset(pixels, np.zeros(20, np.uint8))).argmax(1)
    np.savez(tmp_path / "held.npz", x=pixels, y=named.astype(np.uint8))
    events = Heard()
    easy = quantize(
        source,
        out,
        AutoScheme(Calibration(data), ("minmax",)),
        labelled=LabelledFiles(tmp_path / "held.npz"),
        events=events,
    )
    assert plain.temperature == 1.0
    assert load(out).task.temperature == easy.temperature != 1.0
    (sentence,) = events.sentences
    assert sentence.startswith("there is no clear mistake among 20 held-out images, so the temperature of the scores")


class Heard(Events):
    """Keeps the sentences."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def left_out(self, sentence: str) -> None:
        self.sentences.append(sentence)


def test_unsupported_models_are_refused(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    source, data, out = files
    np.savez(tmp_path / "two.npz", x=np.zeros((3, 32, 32, 3), np.uint8), y=np.zeros(3, np.uint8), labels=["x", "y"])
    with pytest.raises(DataError, match=r"two\.npz: the class 'x' is no label of the model, expected a, b, c"):
        quantize(source, out, PaperScheme(), labelled=LabelledFiles(tmp_path / "two.npz"))
    with pytest.raises(QuantizeError, match=r"none\.npz does not exist, expected a data set, a folder of pictures"):
        quantize(source, out, AutoScheme(Calibration(tmp_path / "none.npz")))
    with pytest.raises(ModelError, match="not a complete safetensors file"):
        quantize(data, out, PaperScheme())
    assert not out.exists()
