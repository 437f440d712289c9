"""The study of number formats: its configs are valid, and its table and plot say what the logs say."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from benchmarks.simulate_study import (
    LOSS_SCALE,
    STUDY,
    Result,
    Run,
    add,
    chart,
    result_files,
    result_of,
    results_of,
    table,
)
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.simulate.training.config import TrainingConfig


def result(form: str, seed: int, *accuracies: float) -> Result:
    return Result(form, seed, list(accuracies), [1.0] * len(accuracies))


FOUND = [
    result("float32", 1, 40.0, 80.0),
    result("float32", 2, 42.0, 84.0),
    result("FlexFP8", 1, 10.0, 11.0),
    result("FlexFP8", 2, 10.0, 9.0),
    result("FlexFP8", 3, 10.0, 10.0),
]


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


def test_table_and_plot() -> None:
    """A format is compared with float32 by the seeds that both have."""
    assert list(table(FOUND))[2:] == [
        "| float32 | 1, 2 | 80.00, 84.00 | 82.00 | 0.00 |",
        "| FlexFP8 | 1, 2, 3 | 11.00, 9.00, 10.00 | 10.00 | 72.00 |",
    ]
    assert {line.name: list(line.points) for line in chart(8, FOUND).series} == {
        "float32": [(1, 41.0), (2, 82.0)],
        "FlexFP8": [(1, 10.0), (2, 10.0)],
    }


def test_result_files_grow_by_trainings_with_the_same_options(tmp_path: Path) -> None:
    files = result_files(tmp_path, 8, None, "--epochs 2")
    for each in reversed(FOUND):
        add(files, each)
    assert {path.name for path in tmp_path.iterdir()} == {f"simulate-study-resnet8.{kind}" for kind in ("json", "md")}
    assert results_of(files.runs()) == FOUND
    again = result("FlexFP8", 2, 11.0, 12.0)
    add(files, again)
    assert results_of(files.runs()) == [*FOUND[:3], again, FOUND[4]]
    longer = result_files(tmp_path, 8, None, "--epochs 3")
    add(longer, result("bfloat16", 1, 10.0, 20.0, 30.0))
    assert [each["format"] for each in longer.runs()] == ["bfloat16"]
    assert result_files(tmp_path, 20, None, "--epochs 3").runs() == []
    assert result_files(tmp_path, 8, 400, "--images 400").name == "simulate-study-resnet8-400-images"


def test_a_result_is_read_from_the_log_of_its_run(tmp_path: Path) -> None:
    run = Run(8, "bfloat16", 2)
    log = run.folder(tmp_path) / "log.jsonl"
    log.parent.mkdir(parents=True)
    reporter = Reporter(log, None)
    for epoch in (1, 2):
        reporter.report("training", epoch, 2, 50, 100, 2.0)
        reporter.report("training", epoch, 2, 100, 100, 1.0 / epoch, 40.0 * epoch)
    found = result_of(run, tmp_path)
    assert (found.format, found.seed, found.accuracy, found.loss) == ("bfloat16", 2, [40.0, 80.0], [1.0, 0.5])
