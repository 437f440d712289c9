"""The study of number formats: its configs are valid, and its table and plot say what the logs say."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from benchmarks.simulate_study import LOSS_SCALE, STUDY, Run, chart, seconds_per_epoch, table, write
from edgemeta.toolchain.progress import Progress
from edgemeta.toolchain.simulate.training.config import TrainingConfig


def epochs(*accuracies: float) -> list[Progress]:
    last = len(accuracies)
    return [
        Progress("training", number, last, 5, 5, 1.0, accuracy, None, 2.0 * number)
        for number, accuracy in enumerate(accuracies, 1)
    ]


FOUND = {
    Run(8, "float32", 1): epochs(40.0, 80.0),
    Run(8, "float32", 2): epochs(42.0, 84.0),
    Run(8, "FlexFP8", 1): epochs(10.0, 11.0),
    Run(8, "FlexFP8", 2): epochs(10.0, 9.0),
    Run(8, "bfloat16", 1): [],
}


def without_form(config: TrainingConfig) -> dict[str, Any]:
    return config.model_dump(exclude={"rules", "rounding", "loss_scale"})


def test_every_format_has_a_config() -> None:
    """They differ in rules, rounding and loss scale alone."""
    configs = {name: Run(20, name, 3).config(10, 128, 0.1) for name in STUDY}
    assert len(configs) == 9
    assert configs["float32"].simulation is None
    assert [name for name, config in configs.items() if config.loss_scale == LOSS_SCALE] == ["FlexFP8, loss scaling"]
    for config in configs.values():
        assert without_form(config) == without_form(configs["float32"])
        assert config.design(32, 10).name == "resnet20"
    assert len({Run(20, name, 3).folder(Path("runs")) for name in STUDY}) == 9


def test_table_and_plot(tmp_path: Path) -> None:
    rows = list(table(FOUND))[2:]
    assert rows == [
        "| resnet8 | float32 | 2 | 80.00, 84.00 | 82.00 | 0.00 |",
        "| resnet8 | FlexFP8 | 2 | 11.00, 9.00 | 10.00 | 72.00 |",
    ]
    assert {line.name: list(line.points) for line in chart(8, FOUND).series} == {
        "float32": [(1, 41.0), (2, 82.0)],
        "FlexFP8": [(1, 10.0), (2, 10.0)],
    }
    assert seconds_per_epoch(FOUND[Run(8, "float32", 1)]) == 2.0
    assert seconds_per_epoch([]) is None
    write(tmp_path, "the command", FOUND)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"simulate-study.json", "simulate-study.md", "simulate-study-resnet8.png"}
