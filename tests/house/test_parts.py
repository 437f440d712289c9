"""A part of a table names each of its rows that fail, runs the others, and divides by marks."""

import os
import re
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

COSTLY = """
import os
import re
from pathlib import Path
import pytest
from tests.parts import in_parts

@pytest.fixture
def limit():
    yield 2
    assert not Path("leak").exists()

@in_parts({f"row{number}": number for number in range(3)}, keeps_verdicts=True)
def test_costly(number, limit):
    print(f"ran {number}")
    assert number < limit or Path("mended").exists()
"""


def run(folder: Path, *arguments: str, tests: str = TESTS, full: str = "0") -> list[str]:
    (folder / "test_small.py").write_text(tests)
    (folder / "pytest.ini").touch()
    (folder / "equal.py").write_text("from tests import verdicts\nverdicts.circumstances = lambda: 'equal'\n")
    command = [sys.executable, "-m", "pytest", "-p", "equal", "-p", "tests.parts", "-ra", *arguments, "."]
    environment = os.environ | {"EDGEMETA_FULL": full, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "1")], ids=["one process", "xdist"])
def test_every_failing_row_of_a_part_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    lines = run(tmp_path, *arguments)
    part = "test_small.py::test_small[row3..row5]"
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("SUBFAILED", "FAILED"))]
    assert failed == [f"SUBFAILED[row4] {part}", f"SUBFAILED[row5] {part}", f"FAILED {part}"]
    assert "E       AssertionError: 5 is not small" in lines
    assert "3 failed, 1 passed, 1 skipped" in lines[-1]


def test_one_row(tmp_path: Path) -> None:
    assert "1 passed, 2 deselected" in run(tmp_path, "--row", "row2")[-1]


def test_rows_that_have_passed_do_not_run_again_but_on_the_gate(tmp_path: Path) -> None:
    def ran(*arguments: str, full: str = "0") -> list[str]:
        lines = run(tmp_path, "-s", *arguments, tests=COSTLY, full=full)
        return [word for line in lines for word in re.findall(r"ran (\d)", line)]

    (tmp_path / "leak").touch()
    assert len(ran()) == 3, "nothing is kept: the fixture fails at its end"
    (tmp_path / "leak").unlink()
    assert len(ran()) == 3
    (tmp_path / "mended").touch()
    assert len(ran()) == 1, "only what failed"
    assert ran() == []
    assert len(ran(full="1")) == 3
    assert len(ran("--cache-clear")) == 3
