"""`train_simulated`: it learns, it continues exactly, it draws its curves, and it refuses what does not fit."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.float_file import save_float_model
from edgemeta.toolchain.errors import CheckpointError, DataError, SimulateError
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.simulate.training.train import SimulatedTraining, train_simulated


class StoppedError(Exception):
    """Stands for Ctrl-C."""


def train(config: Path, data: tuple[Path, Path], folder: Path, stop: int | None = None) -> SimulatedTraining:
    def watch(event: TrainingEvent) -> None:
        if event.epoch == stop:
            raise StoppedError

    return train_simulated(config, *data, folder, progress=watch)


@pytest.mark.gate("6 s: two trainings")
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    """It learns, and its log and its curves are complete; a finished run gives the same result again."""
    config = write_config(loss_scale="dynamic")
    whole = train(config, coloured, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(config, coloured, tmp_path / "parts", 1)
    parts = train(config, coloured, tmp_path / "parts")
    assert (parts.sha256, parts.accuracy, parts.epochs, parts.images) == (whole.sha256, whole.accuracy, 3, 15)
    assert whole.accuracy > 80
    again = train(config, coloured, tmp_path / "parts")
    assert (again.sha256, again.accuracy) == (whole.sha256, whole.accuracy)
    lines = [json.loads(line) for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["epoch"]) for line in lines] == [("training", n) for n in (1, 2, 3)]
    assert lines[-1]["accuracy"] == whole.accuracy
    assert (tmp_path / "parts" / "curves.html").read_text() == "3 epochs"
    assert not list((tmp_path / "parts").glob(".*"))


def test_rules_change_the_training_and_the_seed_does(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    changes: dict[str, dict[str, object]] = {"float": {"rules": None}, "rules": {}, "seed": {"seed": 2}}
    digests = {
        train(write_config(epochs=1, **change), coloured, tmp_path / name).sha256 for name, change in changes.items()
    }
    assert len(digests) == 3


def test_mixed_precision(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are trained in float32 as ever, whether the processor has bfloat16 or, as here, emulates it; it learns.

    A processor without it trains as in float32.
    """
    plain = train(write_config(), coloured, tmp_path / "plain")
    for native in (True, False):
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda native=native: {"avx512_bf16": native})
        trained = train(write_config(mixed_precision=True), coloured, tmp_path / f"mixed-{native}")
        assert {str(each.dtype) for each in trained.network.parameters()} == {"torch.float32"}
        assert (trained.sha256 == plain.sha256) is not native
        assert trained.accuracy > 80


def test_a_float_model_to_start_from(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    """The shipped ResNet-8: its layers, another dense layer; of another width it is refused."""
    wide = write_config(network={"depth": 8}, epochs=1, lr=1e-9, start="resnet8-cifar10-float")
    trained = train(wide, coloured, tmp_path / "started")
    plain = train(write_config(network={"depth": 8}, epochs=1, lr=1e-9), coloured, tmp_path / "plain")
    assert trained.sha256 != plain.sha256
    with pytest.raises(ModelError, match=r"resnet8-cifar10-float: conv0\.weight has shape .*, expected"):
        train(write_config(start="resnet8-cifar10-float"), coloured, tmp_path / "narrow")


def test_soft_learns_from_the_float_model_and_not_from_the_labels(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    """The float model was taught that red is green, green is blue and blue is red."""
    with np.load(coloured[0]) as members:
        np.savez(tmp_path / "wrong.npz", x=members["x"], y=(members["y"] + 1) % 3, labels=members["labels"])
    wrong = train(write_config(rules=None), (tmp_path / "wrong.npz", coloured[1]), tmp_path / "float")
    save_float_model(
        wrong.network.classification("wrong", ("red", "green", "blue"), {}), tmp_path / "wrong.safetensors"
    )
    changes = {"start": str(tmp_path / "wrong.safetensors"), "mixed_precision": True}
    for soft, right in ((0.0, True), (1.0, False)):
        trained = train(write_config(soft=soft, **changes), coloured, tmp_path / f"soft-{soft}")
        assert (trained.accuracy > 50) is right


def test_another_config_does_not_continue_a_run(
    tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    train(write_config(epochs=1), coloured, tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"network\.pt: made with another recipe or seed"):
        train(write_config(epochs=1, lr=0.2), coloured, tmp_path / "run")


def test_what_is_refused(tmp_path: Path, coloured: tuple[Path, Path], write_config: Callable[..., Path]) -> None:
    images, test = coloured
    other = tmp_path / "other.npz"
    with np.load(test) as members:
        np.savez(other, x=members["x"], y=members["y"], labels=np.array(["red", "green", "grey"]))
    with pytest.raises(DataError, match=r"other\.npz: has 3 classes \(red, ...\), expected the 3 of the training"):
        train(write_config(), (images, other), tmp_path / "run")
    with pytest.raises(SimulateError, match=r"config\.yaml line 1: batch is 65, expected at most 64"):
        train(write_config(batch=65), coloured, tmp_path / "run")
    rules = [{"layers": "dense*", "weight": "int8"}]
    with pytest.raises(SimulateError, match=r"config\.yaml line \d+: rule 1 \(dense\*\) matches no layer, .* conv0"):
        train(write_config(rules=rules), coloured, tmp_path / "run")
