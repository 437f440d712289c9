"""Resources of a compiled kernel: registers, shared memory, spills; checks whether a block fits the architecture."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Launch

_WARP = 32
_REGISTER_UNIT = 256
"""Registers are allocated to warps in units of 256 (CUDA occupancy calculator, every generation since Maxwell)."""


@dataclass(frozen=True)
class Resources:
    """As ptxas reports them: registers per thread; bytes of shared memory per block, of stack and spills per thread."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def parse_resources(log: str, entry: str) -> Resources:
    """Parse the report of ptxas (`--ptxas-options=-v`) on one kernel. Raises CompilerError if the log has none.

    Format of CUDA 10.2 to 13: a line with the entry, then its stack frame and spills, then "Used N registers, …".
    """
    _, _, rest = log.partition(f"Compiling entry function '{entry}'")
    report = rest.partition("Compiling entry function")[0]
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    registers = re.search(r"Used (\d+) registers", report)
    if frame is None or registers is None:
        raise CompilerError(f"the compiler's log has no resource report of {entry}")
    shared = re.search(r"(\d+) bytes smem", report)
    stack, stores, loads = map(int, frame.groups())
    return Resources(int(registers[1]), int(shared[1]) if shared else 0, stack, stores, loads)


def violations(launch: Launch, resources: Resources, architecture: Architecture) -> Iterator[str]:
    """Problems of a launch, one phrase each: spills, a stack frame, or a block that does not fit the architecture."""
    if resources.spill_store_bytes or resources.spill_load_bytes:
        yield f"spills: {resources.spill_store_bytes} bytes stored and {resources.spill_load_bytes} loaded per thread"
    if resources.stack_bytes:
        yield f"has a stack frame of {resources.stack_bytes} bytes"
    shared = resources.shared_bytes + launch.shared_bytes
    if shared > architecture.shared_bytes:
        yield f"needs {shared} bytes of shared memory, {architecture.name} has {architecture.shared_bytes}"
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    registers = -(-threads // _WARP) * -(-resources.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    if registers > architecture.registers:
        yield f"needs {registers} registers for {threads} threads, {architecture.name} has {architecture.registers}"
