"""The machine code of the kernels executes as many barriers as the emulation counts.

So a barrier that only the emulation has, or that it lacks, is detected without a GPU. The control flow of the machine
code is executed for every thread (interpreter.py); the first witness of each kernel has no guarded barrier, so its
count is exact.
"""

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta_proof.machine_code.interpreter import WARP, run
from edgemeta_proof.machine_code.sass import disassemble
from tests.emulation.executor import Emulator
from tests.emulation.witnesses import WITNESSES

CHOSEN = {"direct": (1, 3), "winograd": (1, 2), "pool_dense": (0,), "tensor": (0,), "elementwise": (1,)}
"""Witnesses used for each kernel: together they execute every barrier of the product's kernels."""
CHOSEN |= dict.fromkeys(("grouped", "pool", "rearrange", "resize"), (0,))
MORE = pytest.mark.gate("5 s each: the machine code of a large launch is executed")
WITHOUT_BARRIERS = ("tensor", "elementwise", "grouped", "pool", "rearrange", "resize")


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        pytest.param(kernel, number, marks=[] if (kernel, number) == ("direct", 1) else [MORE])
        for kernel, numbers in CHOSEN.items()
        for number in numbers
    ],
)
def test_barriers_of_the_machine_code(kernel: str, number: int, compiler: Compiler) -> None:
    witness = WITNESSES[kernel][number]
    emulator = Emulator(witness.plan, mode="quick")
    emulator.run(witness.batch[:1])
    counted = {each: n for each, n in emulator.barriers.items() if each.source.path.startswith(f"{kernel}/")}
    for launch, barriers in counted.items():
        code = disassemble(compiler.compile(launch.source, witness.plan.architecture), launch.source.entry)
        warps = -(-int(np.prod(launch.block)) // WARP)
        issued = run(code, launch.grid, launch.block).issued.get("BAR", 0)
        guarded = sum(each.base == "BAR" and each.guard is not None for each in code.instructions)
        skipped = guarded * warps * int(np.prod(launch.grid))  # `if (pass > 0)`: issued, though not taken, once a block
        assert barriers * warps <= issued <= barriers * warps + skipped, launch.source
    assert (sum(counted.values()) == 0) == (kernel in WITHOUT_BARRIERS)
