"""Progress goes to the callback always, to the log at the end of an epoch."""

import json
from pathlib import Path

import pytest

from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter, TrainingEvent, read_log


def test_reporter(tmp_path: Path) -> None:
    seen: list[TrainingEvent] = []
    reporter = Reporter(tmp_path / "log.jsonl", seen.append)
    reporter.restart_clock()
    reporter.report("student", 1, 2, 5, 10, 1.5)
    reporter.report("student", 1, 2, 10, 10, 1.25, 80.0, 79.0)
    assert [e.step for e in seen] == [5, 10]
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "stage": "student",
        "epoch": 1,
        "epochs": 2,
        "step": 10,
        "steps": 10,
        "loss": 1.25,
        "accuracy": 80.0,
        "raw_accuracy": 79.0,
        "seconds": seen[1].seconds,
    }


def test_without_callback(tmp_path: Path) -> None:
    Reporter(tmp_path / "log.jsonl", None).report("views", 1, 1, 1, 1)
    assert (tmp_path / "log.jsonl").read_text().count("\n") == 1


def test_the_log_is_read(tmp_path: Path) -> None:
    seen: list[TrainingEvent] = []
    reporter = Reporter(tmp_path / "log.jsonl", seen.append)
    assert not reporter.has("training", 1)
    reporter.report("training", 1, 2, 10, 10, 1.5, 80.0)
    assert [reporter.has("training", 1), reporter.has("training", 2), reporter.has("student", 1)] == [
        True,
        False,
        False,
    ]
    assert read_log(tmp_path / "log.jsonl") == seen


def test_a_damaged_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    Reporter(log, None).report("training", 1, 2, 10, 10)
    for line in ("{", "[]", '{"epoch": 1}'):
        log.write_text(log.read_text().splitlines()[0] + f"\n{line}\n")
        with pytest.raises(CheckpointError, match=r"log\.jsonl line 2: is no finished epoch, expected"):
            read_log(log)
