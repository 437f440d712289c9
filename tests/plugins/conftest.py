"""A network for the tests of backends."""

import pytest

from tests.conformance.cases import CASES, Case


@pytest.fixture(scope="session")
def resnet8() -> Case:
    """The row of the table that has ResNet-8's shape."""
    return next(case for case in CASES if case.name == "resnet8-multiplier")
