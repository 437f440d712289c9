"""Training on own pictures, in small: it learns, says what it was made of, and continues."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from edgemeta.model.errors import ModelError
from edgemeta.model.float_file import load_float_model
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.errors import CheckpointError, DataError, RecipeError
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.train.designs import Wishes
from edgemeta.toolchain.train.own_pictures import PicturesResult, train_pictures

SMALL = Wishes(depth=8, width=0.25, size=24)


class StoppedError(Exception):
    """Stands for Ctrl-C."""


@pytest.fixture
def learn(tmp_path: Path, picture_folder: Path) -> Callable[..., PicturesResult]:
    """A function that trains a small network on the pictures of the gate."""

    def train(**changes: Any) -> PicturesResult:
        values: dict[str, Any] = {
            "data": picture_folder,
            "folder": tmp_path / "run",
            "out": tmp_path / "gate.safetensors",
            "wishes": SMALL,
            "epochs": 8,
            **changes,
        }
        return train_pictures(**values)

    return train


def test_it_learns_and_says_what_it_was_made_of(
    tmp_path: Path, learn: Callable[..., PicturesResult], make_pictures: Callable[..., Path]
) -> None:
    test = make_pictures(tmp_path / "later", count=4, seed=9)
    events: list[TrainingEvent] = []
    result = learn(test=test, progress=events.append, epochs=20)
    assert result.test is not None
    assert (result.name, result.network, result.size) == ("resnet8-w0.25-gate", "resnet8-w0.25", 24)
    assert result.test.accuracy == 1.0
    assert result.measured.recall() == {"closed": 1.0, "open": 1.0}
    assert result.table.read_text().splitlines() == result.measured.text()
    assert cv2.imread(str(result.picture)) is not None
    held_out = load_dataset(result.held_out)
    assert (held_out.x.shape, held_out.labels) == ((2, 24, 24, 3), ("closed", "open"))
    model = load_float_model(result.path)
    assert model.provenance["validation_pixels_sha256"] == held_out.sha256()
    assert (model.name, model.labels, model.input_shape) == (result.name, ("closed", "open"), (24, 24, 3))
    made = model.provenance
    assert made["network"] == {"family": "resnet", "depth": 8, "width": 0.25}
    assert (made["data"], made["epochs"], made["best_epoch"]) == ("gate", 20, result.epoch)
    assert (made["train_images"], made["validation_images"], made["test_images"]) == (18, 2, 8)
    assert made["test_accuracy"] == 1.0
    assert "cifar10" not in json.dumps(dict(made))
    assert "cifar10" not in (tmp_path / "run" / "log.jsonl").read_text()
    assert all(e.accuracy is not None for e in events if e.step == e.steps)


def test_a_continued_run_writes_the_file_of_an_uninterrupted_one(
    tmp_path: Path, learn: Callable[..., PicturesResult]
) -> None:
    def watch(event: TrainingEvent) -> None:
        if event.epoch == 3:
            raise StoppedError

    learn(folder=tmp_path / "whole", out=tmp_path / "whole.safetensors", epochs=5)
    with pytest.raises(StoppedError):
        learn(progress=watch, epochs=5)
    assert not (tmp_path / "gate.safetensors").exists()
    learn(epochs=5)
    assert (tmp_path / "gate.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_a_run_belongs_to_its_data_and_its_network(
    tmp_path: Path, learn: Callable[..., PicturesResult], make_pictures: Callable[..., Path]
) -> None:
    learn(epochs=1)
    other = make_pictures(tmp_path / "other", seed=5)
    with pytest.raises(CheckpointError, match=r"made with other training data .* use another run folder.* --fresh"):
        learn(data=other, epochs=1)
    with pytest.raises(CheckpointError, match="made with another recipe or seed"):
        learn(epochs=2)
    with pytest.raises(CheckpointError, match="made with another recipe or seed"):
        learn(epochs=1, wishes=Wishes(depth=14, width=0.25, size=24))
    said: list[str] = []
    learn(data=other, epochs=1, fresh=True, report=said.append)
    assert said == [f"{tmp_path / 'run'}: deleted the run in it (5 files) to start afresh"]
    assert load_float_model(tmp_path / "gate.safetensors").provenance["data"] == "other"


def test_it_starts_from_the_weights_of_another_network(
    tmp_path: Path, learn: Callable[..., PicturesResult], make_pictures: Callable[..., Path]
) -> None:
    first = learn(epochs=3)
    three = make_pictures(tmp_path / "three", ("ajar", "closed", "open"))
    start = str(first.path)
    out = tmp_path / "second.safetensors"
    second = learn(data=three, start=start, epochs=1, wishes=Wishes(), folder=tmp_path / "run2", out=out)
    assert (second.network, second.size) == ("resnet8-w0.25", 24)
    model = load_float_model(out)
    assert model.provenance["start"] == {
        "name": first.name,
        "sha256": hashlib.sha256(first.path.read_bytes()).hexdigest(),
    }
    larger = learn(start=start, epochs=1, wishes=Wishes(size=48), folder=tmp_path / "run3", out=out)
    assert larger.size == 48
    with pytest.raises(RecipeError, match="depth is 14, expected 8, which the weights to start from have"):
        learn(start=start, epochs=1, wishes=Wishes(depth=14), folder=tmp_path / "run4")
    with pytest.raises(ModelError, match="is an integer model, expected a float model"):
        learn(start="resnet8-cifar10", epochs=1, folder=tmp_path / "run4")


def test_the_first_weights_are_those_of_the_start(learn: Callable[..., PicturesResult], tmp_path: Path) -> None:
    """With a learning rate that rises from zero, one step changes little: the features are still those."""
    first = load_float_model(learn(epochs=8).path)
    out = tmp_path / "second.safetensors"
    learn(start=str(tmp_path / "gate.safetensors"), epochs=1, folder=tmp_path / "run2", out=out)
    second = load_float_model(out)
    for one, other in zip(first.layers, second.layers, strict=True):
        if hasattr(one, "weight") and one.name.startswith("conv"):
            cosine = float(
                (one.weights * other.weights).sum() / np.linalg.norm(one.weights) / np.linalg.norm(other.weights)
            )
            assert cosine > 0.9, one.name


def test_the_shipped_float_network_can_be_the_start(learn: Callable[..., PicturesResult]) -> None:
    result = learn(start="resnet8-cifar10-float", epochs=1, wishes=Wishes())
    assert (result.network, result.size) == ("resnet8", 32)


def test_what_is_wrong_is_said_before_the_training(
    tmp_path: Path, learn: Callable[..., PicturesResult], make_pictures: Callable[..., Path]
) -> None:
    events: list[TrainingEvent] = []
    with pytest.raises(DataError, match="is no label of the model"):
        learn(data=make_pictures(tmp_path / "three", ("a", "b", "c")), test=tmp_path / "gate", progress=events.append)
    with pytest.raises(DataError, match="nothing"):
        learn(test=tmp_path / "nothing", progress=events.append)
    assert events == []
    assert not (tmp_path / "run").exists()


def test_a_data_set_in_a_file(tmp_path: Path, learn: Callable[..., PicturesResult], write_npz: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    x = (rng.integers(0, 60, (24, 28, 28, 3)) + y[:, None, None, None] * 90).astype(np.uint8)
    data = write_npz(x=x, y=y, labels=np.array(["low", "mid", "high"]))
    result = learn(data=data, epochs=1, wishes=Wishes("mobilenetv2", width=0.125))
    assert (result.name, result.size) == ("mobilenetv2-w0.125-set", 28)
    assert result.test is None
    assert result.measured.labels == ("low", "mid", "high")


def test_threads_are_set(learn: Callable[..., PicturesResult]) -> None:
    before = torch.get_num_threads()
    try:
        learn(epochs=1, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
