"""Parts that tests of compiled kernels need; where one is missing, the reason names what to install."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compiler import Compiler, CompilerError, wheel_compiler
from edgemeta.kernels.cuda.plan import Source
from edgemeta.kernels.cuda.sass import SassError, disassemblers

sys.path.append(str(Path(__file__).parent))  # `from one_step import ...`

Write = Callable[..., Source]


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


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a kernel named `kernel` into a file and give its variant."""

    def source(text: str, name: str = "kernel.cu", **defines: int) -> Source:
        path = tmp_path / name
        path.write_text(text)
        return Source(str(path), "kernel", tuple(defines.items()))

    return source
