"""Fixtures for kernels that are written as text and launched with NumPy arrays."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Source
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.memory import Memory
from tests.emulation.module import Module

Array: TypeAlias = NDArray[Any]


class Kernel:
    """`extern "C" __global__ void kernel(PARAMETERS) { BODY }` on the emulated sm_87."""

    def __init__(self, folder: Path, parameters: str, body: str, mode: str, defines: Mapping[str, int]) -> None:
        text = f'extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'
        (folder / "kernel.cu").write_text(text)
        source = Source("kernel.cu", "kernel", tuple(defines.items()))
        self.module = Module(EmulationCompiler(mode, folder).compile(source, ARCHITECTURES["sm_87"]))

    def launch(
        self,
        *arrays: Array,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (32, 1, 1),
        shared_bytes: int = 0,
        order: int = 0,
        poison: int = 0xA5,
    ) -> tuple[Array, ...]:
        """Contents of the arrays after the launch. Arrays marked read-only are constants."""
        memories = [Memory(f"argument{i}", array.nbytes, array.flags.writeable) for i, array in enumerate(arrays)]
        for memory, array in zip(memories, arrays, strict=True):
            memory.bytes[:] = array.reshape(-1).view(np.uint8)
        objects = [memory.object for memory in memories]
        self.module.launch("kernel", grid, block, shared_bytes, objects, order, poison)
        for memory in memories:
            memory.check_guards()
        return tuple(m.bytes.view(a.dtype).reshape(a.shape) for m, a in zip(memories, arrays, strict=True))


Make: TypeAlias = Callable[..., Kernel]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def kernel(parameters: str, body: str, mode: str = "fast", **defines: int) -> Kernel:
        return Kernel(tmp_path, parameters, body, mode, defines)

    return kernel
