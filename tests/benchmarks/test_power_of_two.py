"""The study of powers of two: runs differ in nothing else, and table and plot say what was found."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

import torch

from benchmarks.power_of_two import METHODS, Run, accuracies, accuracy_of, add, all_runs, chart, result_files, table
from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build

FOUND = {
    Run(1): 88.0,
    Run(2): 89.0,
    Run(1, 5, "error, annealed"): 87.5,
    Run(2, 5, "error, annealed"): 87.9,
    Run(3, 4, "magnitude"): 80.0,
}


def test_runs_differ_in_bits_method_and_seed_alone() -> None:
    runs = all_runs([1, 2, 3], [5, 4, 3])
    assert len(runs) == len(set(runs)) == 3 * (1 + 3 * (3 * 2 + 2))
    assert len({run.folder(Path("r")) for run in runs}) == len(runs)
    for run in runs:
        settings = run.settings(3)
        assert settings.all_epochs == 12
        same = (settings.lr, settings.batch, settings.soft, settings.softness, settings.weight_decay, settings.held_out)
        assert same == (0.02, 128, 0.9, 3.0, 2e-4, 0.1)
    methods = {(each.rule, each.heat, each.exponents) for each in (run.settings(3) for run in runs if run.bits)}
    assert len(methods) == 8 == len(METHODS) - 1
    assert all_runs([2], [3], ["float", "error"]) == [Run(2), Run(2, 3, "error")]


def test_table_and_plot() -> None:
    """A method is compared with float by the seeds that both have."""
    assert list(table(FOUND))[2:] == [
        "| 32 | float | 1, 2 | 88.50 | 0.71 | 0.00 |",
        "| 5 | error, annealed | 1, 2 | 87.70 | 0.28 | 0.80 |",
        "| 4 | magnitude | 3 | 80.00 |  |  |",
    ]
    assert chart(FOUND).rows == {
        "float": [88.0, 89.0],
        "5 bits: error, annealed": [87.5, 87.9],
        "4 bits: magnitude": [80.0],
    }


def test_result_files_grow_by_runs_from_the_same_network_with_the_same_options(tmp_path: Path) -> None:
    files = result_files(tmp_path, "small", "a digest", None, "--epochs 3")
    for run in reversed(FOUND):
        add(files, run, FOUND[run])
    assert list(accuracies(files.runs()).items()) == list(FOUND.items())
    assert {path.name for path in tmp_path.iterdir()} == {"power-of-two-small.json", "power-of-two-small.md"}
    add(files, Run(2), 89.5)
    assert accuracies(files.runs()) == {**FOUND, Run(2): 89.5}
    assert result_files(tmp_path, "small", "another digest", None, "--epochs 3").runs() == []
    assert result_files(tmp_path, "small", "a digest", None, "--epochs 1").runs() == []
    assert result_files(tmp_path, "small", "a digest", 400, "--epochs 3").name == "power-of-two-small-400-images"


@pytest.fixture
def small() -> FloatModel:
    torch.manual_seed(2)
    return build(Design(2, width=0.125)).classification("small", ("off", "on"), {})


@pytest.mark.parametrize("run", [Run(1), Run(2, 3, "random, annealed")])
def test_a_run_is_retrained_once_and_then_read(tmp_path: Path, small: FloatModel, run: Run) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(150) % 2
    images = Dataset(
        (rng.integers(0, 150, (150, 32, 32, 3)) + 100 * y[:, None, None, None]).astype(np.uint8), y, ("off", "on")
    )
    first = accuracy_of(run, 1, small, images, tmp_path)
    checkpoint: Any = (run.folder(tmp_path) / "network.pt").stat().st_mtime_ns
    assert accuracy_of(run, 1, small, images, tmp_path) == first
    assert (run.folder(tmp_path) / "network.pt").stat().st_mtime_ns == checkpoint
    assert (run.folder(tmp_path) / "log.jsonl").read_text().count("\n") == 4
