"""Estimated execution time of a tile before it is compiled, to sort candidates by; and how many blocks are resident.

    clocks = max(instructions / (multiprocessors * 4 * EFFICIENCY), rounds * longest * LONE_CLOCKS,
                 loaded / (multiprocessors * L1_BYTES))

The first term is the limit of a fully occupied device, the second that of a device with few warps: a lone warp waits
for its own results, and blocks that are not resident at once wait for the previous round. The third is that of the L1
cache.
"""

from dataclasses import dataclass

from edgemeta.kernels.cuda.plan.architectures import Architecture

SCHEDULERS = 4
"""Warp-instructions that a multiprocessor can issue per clock (CUDA C++ programming guide: multiprocessors of compute
capability 5.x, 6.1, 6.2, 7.x, 8.x and 9.0 have four warp schedulers, each of which issues one instruction per clock).
"""

EFFICIENCY = 0.75
"""Guess: the share of them that a kernel with many warps uses; bank conflicts, barriers and caches cost the rest."""

LONE_CLOCKS = 3.0
"""Guess: clocks between two instructions of a lone warp. The latency on Maxwell is 6 clocks; code that is unrolled like
ours has about two independent instructions.
"""

L1_BYTES = 32
"""Bytes per clock that the lanes of a multiprocessor load through the L1 cache: two quads of adjacent words (Maxwell;
its source is in machine_code/timing/generations.py).
"""

WARP = 32
_REGISTER_UNIT = 256
"""Registers are allocated to warps in units of 256 (CUDA occupancy calculator, every generation since Maxwell)."""


@dataclass(frozen=True)
class Work:
    """The work of a launch for one image, counted or estimated.

    blocks: of the grid. threads: of a block. registers: of a thread. shared_bytes: of a block. instructions:
    warp-instructions of all blocks. longest: those of the longest warp. loaded: bytes that all lanes load through the
    L1 cache, 0 if they are not what limits the launch.
    """

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    instructions: float
    longest: float
    loaded: float = 0.0


def busy_clocks(work: Work, architecture: Architecture) -> float:
    """Clocks of a launch, without launch overhead."""
    issued = work.instructions / (architecture.multiprocessors * SCHEDULERS * EFFICIENCY)
    loads = work.loaded / (architecture.multiprocessors * L1_BYTES)
    return max(issued, rounds(work, architecture) * work.longest * LONE_CLOCKS, loads)


def rounds(work: Work, architecture: Architecture) -> int:
    """Number of rounds (waves) in which the multiprocessors execute the blocks."""
    together = max(1, resident_blocks(work.threads, work.registers, work.shared_bytes, architecture))
    return -(-work.blocks // (together * architecture.multiprocessors))


def resident_blocks(threads: int, registers: int, shared_bytes: int, architecture: Architecture) -> int:
    """Blocks that a multiprocessor executes at once; registers: of a thread, shared_bytes: of a block."""
    warps = -(-threads // WARP)
    allocated = warps * -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    limits = [
        architecture.resident_blocks,
        architecture.resident_warps // warps,
        architecture.resident_registers // allocated,
    ]
    if shared_bytes:
        limits.append(architecture.resident_shared_bytes // shared_bytes)
    return min(limits)
