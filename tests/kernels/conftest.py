"""Requirements of tests of compiled kernels; if one is missing, the skip reason names what to install."""

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError, wheel_compiler
from edgemeta_proof.machine_code.sass import SassError, disassemblers
from tests.conformance.cases import CASES, Case


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
