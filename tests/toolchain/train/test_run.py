"""A whole run in small: it learns, and a run that was stopped ends as one that was not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.errors import CheckpointError, DataError
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.recipe import Recipe, recipe_from
from edgemeta.toolchain.train.run import train_network


@pytest.fixture
def data() -> Dataset:
    """Two easy classes: bright and dark pictures."""
    rng = np.random.default_rng(0)
    y = (np.arange(64) % 2).astype(np.uint8)
    x = rng.integers(0, 100, (64, 32, 32, 3)) + (y * 120)[:, None, None, None]
    return Dataset(x.astype(np.uint8), y, ("dark", "bright"))


RECIPE = {
    "teacher": {"epochs": 2, "batch": 16, "widths": [8, 8, 8], "lr": 0.05, "bias_lr": 4, "views": 1},
    "student": {"epochs": 3, "batch": 16, "lr": 0.1, "warmup_epochs": 1, "evaluate_every": 1},
}


class StoppedError(Exception):
    """Stands for Ctrl-C."""


HELD_OUT = {
    "validation": 0.25,
    "teacher": {**RECIPE["teacher"], "views": 0},
    "student": {**RECIPE["student"], "blended": 0.5},
    "continuation": {"count": 2, "epochs": 1, "lr": 0.01},
}


def run(
    folder: Path,
    data: Dataset,
    stop: tuple[str, int] | None = None,
    entries: object = RECIPE,
    test: Dataset | None = None,
) -> TorchNetwork:
    def watch(event: TrainingEvent) -> None:
        if stop == (event.stage, event.epoch):
            raise StoppedError

    recipe: Recipe = recipe_from(entries, "r")
    alternates = Alternates(255 - data.x[:4], np.arange(4))
    return train_network(recipe, data, test or data, folder, alternates=alternates, threads=1, progress=watch)


def weights(network: TorchNetwork) -> Any:
    return torch.cat([v.double().flatten() for v in network.state_dict().values()])


@pytest.mark.gate("11 s: two trainings")
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path: Path, data: Dataset) -> None:
    threads = torch.get_num_threads()
    try:
        whole = run(tmp_path / "whole", data)
        for stop in (("teacher", 1), ("views", 1), ("teacher", 3), ("student", 1), ("student", 2)):
            with pytest.raises(StoppedError):
                run(tmp_path / "parts", data, stop)
        parts = run(tmp_path / "parts", data)
    finally:
        torch.set_num_threads(threads)
    assert (weights(parts) == weights(whole)).all()
    lines = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert [(e["stage"], e["epoch"]) for e in lines] == [
        ("teacher", 1),
        ("teacher", 2),
        ("views", 1),
        ("teacher", 3),
        ("teacher", 4),
        ("views", 2),
        ("student", 1),
        ("student", 2),
        ("student", 3),
    ]
    assert lines[-1]["loss"] < lines[-3]["loss"]
    assert lines[-1]["accuracy"] is not None


@pytest.mark.gate("10 s: two trainings")
def test_a_held_out_part_is_measured_and_continuations_end_like_uninterrupted_ones(
    tmp_path: Path, data: Dataset
) -> None:
    threads = torch.get_num_threads()
    wrong = Dataset(data.x, 1 - data.y, data.labels)  # measuring the test images would give the opposite
    try:
        whole = run(tmp_path / "whole", data, None, HELD_OUT, wrong)
        for stop in (("teacher", 3), ("student", 2), ("continuation", 1)):
            with pytest.raises(StoppedError):
                run(tmp_path / "parts", data, stop, HELD_OUT, wrong)
        parts = run(tmp_path / "parts", data, None, HELD_OUT, wrong)
    finally:
        torch.set_num_threads(threads)
    assert (weights(parts) == weights(whole)).all()
    lines = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert [(e["stage"], e["epoch"]) for e in lines[4:]] == [
        *(("student", epoch) for epoch in (1, 2, 3)),
        *(("continuation", epoch) for epoch in (1, 2)),
    ]
    assert all(event["accuracy"] > 50 for event in lines[-2:])


def test_data_that_does_not_fit(tmp_path: Path, data: Dataset) -> None:
    recipe = recipe_from(RECIPE, "r")
    small = Dataset(data.x[:, :16], data.y, data.labels)
    with pytest.raises(DataError, match=r"the test images are \(16, 32, 3\), expected"):
        train_network(recipe, data, small, tmp_path)
    with pytest.raises(DataError, match="expected the same classes"):
        train_network(recipe, data, Dataset(data.x, data.y, ("a", "b")), tmp_path)
    few = Dataset(data.x[:15], data.y[:15], data.labels)
    with pytest.raises(DataError, match="there are 15 training images, expected at least one batch of 16"):
        train_network(recipe, few, data, tmp_path)


def test_a_run_belongs_to_its_data(tmp_path: Path, data: Dataset) -> None:
    """Other data in the folder of a finished run gave its weights at once, with false provenance."""
    one = {"epochs": 1, "batch": 16}
    recipe = recipe_from({"teacher": {**RECIPE["teacher"], **one, "count": 1}, "student": one}, "r")
    train_network(recipe, data, data, tmp_path, threads=1)
    others = (
        Dataset(255 - data.x, data.y, data.labels),
        Dataset(data.x, 1 - data.y, data.labels),
        Dataset(data.x, data.y, ("bright", "dark")),
    )
    for other in others:
        with pytest.raises(CheckpointError, match=r"made with other training data .* use another run folder"):
            train_network(recipe, other, other, tmp_path, threads=1)
    alternates = Alternates(255 - data.x[:4], np.arange(4))
    with pytest.raises(CheckpointError, match="made with other training data"):
        train_network(recipe, data, data, tmp_path, alternates=alternates, threads=1)
