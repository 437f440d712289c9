"""A part of a table names each of its rows that fail, runs the others, and divides by marks."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
from tests.parts import in_parts

ROWS = {f"row{number}": number for number in range(7)}

@pytest.fixture
def limit():
    return 4

@in_parts(ROWS, 3, lambda name: (pytest.mark.skip(reason="long"),) if name == "row6" else ())
def test_small(number, limit):
    assert number < limit, f"{number} is not small"
"""


def run(folder: Path, *arguments: str) -> list[str]:
    (folder / "test_small.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.parts", "-p", "no:cacheprovider", "-ra", *arguments, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    return done.stdout.splitlines()


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_every_failing_row_of_a_part_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    lines = run(tmp_path, *arguments)
    part = "test_small.py::test_small[row3..row5]"
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("SUBFAILED", "FAILED"))]
    assert failed == [f"SUBFAILED[row4] {part}", f"SUBFAILED[row5] {part}", f"FAILED {part}"]
    assert "E       AssertionError: 5 is not small" in lines
    assert "3 failed, 1 passed, 1 skipped" in lines[-1]


def test_one_row(tmp_path: Path) -> None:
    assert "1 passed, 2 deselected" in run(tmp_path, "--row", "row2")[-1]
