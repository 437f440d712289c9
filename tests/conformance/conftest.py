"""Gives the tests of this folder the rows of the conformance table."""

import pytest

from tests.conformance.cases import CASES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `case` runs once for every row."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES, ids=[case.name for case in CASES])
