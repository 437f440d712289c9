"""Fragments of PTX in a kernel of their own, executed as machine code, and inputs at the ends of every range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.global_memory import GlobalMemory, Region
from edgemeta_proof.machine_code.execution.machine import Program

Array: TypeAlias = NDArray[Any]

_ENDS = (0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7FFFFFFF, 0x80000000)


def words(count: int, seed: int = 0) -> NDArray[np.int32]:
    """`count` words, in turn the ends of ranges and their negatives, and random ones of every length."""
    rng = np.random.default_rng(seed)
    ends = np.array([sign * end & 0xFFFFFFFF for end in _ENDS for sign in (1, -1)], np.uint32)
    some = rng.choice(ends, count)
    some[1::2] = rng.integers(0, 1 << 32, len(some[1::2]), np.uint32) >> rng.integers(0, 32, len(some[1::2]), np.uint32)
    return some.view(np.int32)


class Fragment:
    """The machine code of `extern "C" __global__ void kernel(PARAMETERS) { BODY }`; shared memory is static."""

    def __init__(self, folder: Path, compiler: Compiler, architecture: str, parameters: str, body: str) -> None:
        text = f'extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
        (folder / "kernel.cu").write_text(text)
        source = Source(str(folder / "kernel.cu"), "kernel", ())
        self.cubin = compiler.compile(source, ARCHITECTURES[architecture])
        self.program = Program(read_kernel(self.cubin, "kernel"))

    @property
    def opcodes(self) -> set[str]:
        """Opcodes with their modifiers."""
        return {each.opcode for each in self.program.instructions}

    def launch(
        self, *arrays: Array, grid: tuple[int, int, int] = (1, 1, 1), block: tuple[int, int, int] = (32, 1, 1)
    ) -> tuple[Array, ...]:
        """The arrays after the launch. Raises ExecutionError."""
        regions = [Region(f"argument{n}", array.nbytes, array.flags.writeable) for n, array in enumerate(arrays)]
        memory = GlobalMemory(regions)
        for number, array in enumerate(arrays):
            memory.content(number)[:] = array.reshape(-1).view(np.uint8)
        self.program.run(grid, block, 0, memory, memory.addresses)
        return tuple(
            memory.content(number).view(array.dtype).reshape(array.shape).copy() for number, array in enumerate(arrays)
        )


Make: TypeAlias = Callable[..., Fragment]
