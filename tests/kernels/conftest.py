"""Lets the tests of backends build networks as the conformance table does (`from networks import Network`)."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "conformance"))

from cases import CASES, Case


@pytest.fixture(scope="session")
def resnet8() -> Case:
    """The row of the table that has ResNet-8's shape."""
    return next(case for case in CASES if case.name == "resnet8-multiplier")
