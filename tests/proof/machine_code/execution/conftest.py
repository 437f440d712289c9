"""Fixture for fragments of code that are executed as machine code."""

from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from tests.proof.machine_code.execution.fragments import Fragment, Make


@pytest.fixture
def fragment(compiler: Compiler, tmp_path: Path, disassembler: None) -> Make:
    def make(parameters: str, body: str, architecture: str = "sm_53") -> Fragment:
        return Fragment(tmp_path, compiler, architecture, parameters, body)

    return make
