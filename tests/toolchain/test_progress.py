"""Progress goes to the callback always, to the log at the end of an epoch."""

import json
from pathlib import Path

from edgemeta.toolchain.progress import Progress, Reporter


def test_reporter(tmp_path: Path) -> None:
    seen: list[Progress] = []
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
