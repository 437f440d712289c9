"""How long a device is busy with a launch: one formula, for counted launches and for tiles that are only estimated.

    clocks = max(instructions / (multiprocessors * 4 * EFFICIENCY), rounds * longest * LONE_CLOCKS)

The first is the limit of a full machine, the second that of one with few warps: a warp alone waits for its own results,
and blocks that do not fit at once wait for a round of those that do.
"""

from dataclasses import dataclass

from edgemeta.kernels.cuda.plan.architectures import Architecture

SCHEDULERS = 4
"""Warp-instructions that a multiprocessor can issue per clock: CUDA C++ programming guide, multiprocessors of compute
capability 5.x, 6.1, 6.2, 7.x, 8.x and 9.0 have four warp schedulers, each of which issues one instruction per clock.
"""

EFFICIENCY = 0.75
"""Guess: the part of them that a kernel with many warps issues; the rest goes to bank conflicts, barriers, caches."""

LONE_CLOCKS = 3.0
"""Guess: clocks from one instruction of a lone warp to its next. Maxwell gives a result after 6 clocks; code that is
unrolled as ours has about two instructions that do not wait for each other.
"""

WARP = 32
_REGISTER_UNIT = 256
"""Registers are given to warps in units of 256 (CUDA occupancy calculator, every generation from Maxwell on)."""


@dataclass(frozen=True)
class Work:
    """What a launch does for one image, counted or estimated.

    blocks: of the grid. threads: of a block. registers: of a thread. shared_bytes: of a block. instructions:
    warp-instructions of all blocks. longest: those of the longest warp.
    """

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    instructions: float
    longest: float


def busy_clocks(work: Work, architecture: Architecture) -> float:
    """Clocks of a launch without the launch itself."""
    issued = work.instructions / (architecture.multiprocessors * SCHEDULERS * EFFICIENCY)
    return max(issued, rounds(work, architecture) * work.longest * LONE_CLOCKS)


def rounds(work: Work, architecture: Architecture) -> int:
    """How often the multiprocessors are filled with blocks, as many as fit at once."""
    warps = -(-work.threads // WARP)
    registers = warps * -(-work.registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    limits = [
        architecture.resident_blocks,
        architecture.resident_warps // warps,
        architecture.resident_registers // registers,
    ]
    if work.shared_bytes:
        limits.append(architecture.resident_shared_bytes // work.shared_bytes)
    return -(-work.blocks // (max(1, min(limits)) * architecture.multiprocessors))
