"""The fixtures of tests of compiled kernels."""

from tests.kernels.conftest import compiler, disassembler, resnet8  # noqa: F401
from tests.kernels.cuda.conftest import write  # noqa: F401
