"""The comparison of searches keeps what was measured before."""

import json
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="Optuna is not installed (pip install 'edgemeta[search]')")

from benchmarks.search_quality import NAME, record


def run_of(seed: int, least: float) -> dict[str, float]:
    images = {"random_images": 2000, "halving_images": 600, "search_images": 200}
    return {"seed": seed, "random": 1.0, "halving": 0.9, "search": least, **images}


def test_seeds_are_added_and_renewed(tmp_path: Path) -> None:
    record(run_of(2, 0.8), 10, tmp_path)
    record(run_of(1, 0.7), 10, tmp_path)
    assert record(run_of(2, 0.6), 10, tmp_path) == [run_of(1, 0.7), run_of(2, 0.6)]
    written = json.loads((tmp_path / f"{NAME}.json").read_text())
    assert [run["search"] for run in written["runs"]] == [0.7, 0.6]
    assert written["command"].endswith("--trials 10 --seeds 1 2")
    assert "| 2 | 1.0000 | 0.9000 | 0.6000 | 2,000, 600, 200 |" in (tmp_path / f"{NAME}.md").read_text()
    assert record(run_of(3, 0.5), 20, tmp_path) == [run_of(3, 0.5)]  # another number of trials does not compare
