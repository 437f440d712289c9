"""Lets the tests of backends build networks as the conformance table does (`from networks import Network`).

Parts that tests of compiled kernels need are here, too; where one is missing, the reason names what to install.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "conformance"))

from cases import CASES, Case

from edgemeta.kernels.cuda.compiler import Compiler, CompilerError, wheel_compiler
from edgemeta.kernels.cuda.sass import SassError, disassemblers


@pytest.fixture(scope="session")
def resnet8() -> Case:
    """The row of the table that has ResNet-8's shape."""
    return next(case for case in CASES if case.name == "resnet8-multiplier")


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """The compiler that is the same on every machine."""
    try:
        return wheel_compiler()
    except CompilerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def disassembler() -> None:
    """A disassembler is at hand."""
    try:
        disassemblers()
    except SassError as error:
        pytest.skip(str(error))
