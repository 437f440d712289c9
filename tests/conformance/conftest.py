"""Makes the table importable (`from cases import CASES`) for the tests of this folder, and gives them its rows."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from cases import CASES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `case` runs once for every row."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES, ids=[case.name for case in CASES])
