"""The result files of the study of layer widths: they grow by networks made from the same file."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from benchmarks.layer_widths import add, chart, result_files


def row(network: str, found_by: str | None, times: float, accuracy: float) -> dict[str, Any]:
    return {
        "network": network,
        "found_by": found_by,
        "packed_bytes": round(1_080_000 / times),
        "times_smaller": times,
        "accuracy": accuracy,
        "lost": round(88 - accuracy, 4),
        "microseconds_of_int8": 1.03,
    }


SEARCHED, WIDE, EVERYWHERE = (
    row("searched, 15.9 times smaller", "sensitivity", 15.92, 87.5),
    row("searched, 8 times smaller", "sensitivity", 8.01, 87.9),
    row("2 bits everywhere", None, 15.7, 86.0),
)


def test_result_files_grow_by_networks_from_the_same_file(tmp_path: Path) -> None:
    files = result_files(tmp_path, "small", "a digest", None, "--epochs 3")
    for each in (EVERYWHERE, WIDE, SEARCHED):
        add(files, 88.0, each)
    assert [each["network"] for each in files.runs()] == [each["network"] for each in (SEARCHED, WIDE, EVERYWHERE)]
    assert {path.name for path in tmp_path.iterdir()} == {"layer-widths-small.json", "layer-widths-small.md"}
    assert (tmp_path / "layer-widths-small.md").read_text().splitlines()[2:] == [
        "Float network: 88.00 %.",
        "",
        "| network | found by | kB of weights | times smaller | top-1 % | lost | time of int8 | instructions of int8 |",
        "|---|---|---|---|---|---|---|---|",
        "| searched, 15.9 times smaller | sensitivity | 67.8 | 15.92 | 87.50 | 0.50 | 1.03 |  |",
        "| searched, 8 times smaller | sensitivity | 134.8 | 8.01 | 87.90 | 0.10 | 1.03 |  |",
        "| 2 bits everywhere |  | 68.8 | 15.7 | 86.00 | 2.00 | 1.03 |  |",
    ]
    add(files, 88.0, {**SEARCHED, "accuracy": 87.7})
    assert [each["accuracy"] for each in files.runs()] == [87.7, 87.9, 86.0]
    assert result_files(tmp_path, "small", "another digest", None, "--epochs 3").runs() == []
    assert result_files(tmp_path, "small", "a digest", None, "--epochs 1").runs() == []
    assert result_files(tmp_path, "small", "a digest", 400, "--epochs 3").name == "layer-widths-small-400-images"


def test_the_plot_has_searched_networks_those_of_one_width_and_the_papers() -> None:
    series = {line.name: list(line.points) for line in chart([SEARCHED, WIDE, EVERYWHERE]).series}
    assert series["searched"] == [(8.01, 0.1), (15.92, 0.5)]
    assert series["one width everywhere"] == [(15.7, 2.0)]
    assert len(series["Kim, Hong and Shin"]) == 4
