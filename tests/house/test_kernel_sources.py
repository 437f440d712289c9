"""Sources in C++, CUDA and SystemVerilog: what ruff checks in those in Python."""

from pathlib import Path

from tests.house.test_docs import WIDTH

SUFFIXES = {".c", ".cpp", ".h", ".cu", ".cuh", ".sv"}
ROOMS = ("kernels", "proof", "rig", "tests")


def test_lines_have_at_most_120_columns(repository: Path) -> None:
    files = [file for room in ROOMS for file in (repository / room).rglob("*") if file.suffix in SUFFIXES]
    assert len(files) > 100
    too_long = [
        f"{file.relative_to(repository)}:{number}: {len(line)} columns"
        for file in files
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert not too_long
