"""Estimated execution time of a tile before it is compiled, to sort candidates by; and how many blocks are resident.

    clocks = sum over the phases between barriers of
        max(issued, loaded, (issued + loaded) * OVERLAPPING_WARPS / warps, rounds * longest * LONE_CLOCKS)
        + rounds * waits * WAIT_CLOCKS
    issued = instructions / (multiprocessors * 4 * EFFICIENCY)
    loaded = loaded bytes / (multiprocessors * L1_BYTES)
    rounds = blocks / blocks that are resident at once, at least 1; a part of one counts as such

issued is the limit of a fully occupied device, loaded that of the L1 cache. Few warps do not compute while others load:
all began a phase together. The last limit is that of a lone warp, which waits for its own results; blocks that are not
resident at once wait for the previous round. The blocks of a round are in the same phase, as they began together, and
nothing hides the first loads of a phase: so each phase has its own limit.
"""

from dataclasses import dataclass

from edgemeta.kernels.cuda.plan.architectures import Architecture

SCHEDULERS = 4
"""Warp-instructions that a multiprocessor can issue per clock (CUDA C++ programming guide: multiprocessors of compute
capability 5.x, 6.1, 6.2, 7.x, 8.x and 9.0 have four warp schedulers, each of which issues one instruction per clock).
"""

EFFICIENCY = 0.95
"""Guess: the share of them that a phase with many warps uses."""

LONE_CLOCKS = 3.0
"""Guess: clocks between two instructions of a lone warp. The latency on Maxwell is 6 clocks; code that is unrolled like
ours has about two independent instructions.
"""

L1_BYTES = 32
"""Bytes per clock that the lanes of a multiprocessor load through the L1 cache: two quads of adjacent words (Maxwell;
its source is in edgemeta_proof/machine_code/timing/generations.py).
"""

OVERLAPPING_WARPS = 8
"""Guess, from simulations (edgemeta_proof): with more warps than these on a multiprocessor, some load while others
compute."""

WAIT_CLOCKS = 207
"""A load from the L2 cache (Maxwell; its source is in edgemeta_proof/machine_code/timing/generations.py)."""

WARP = 32
_REGISTER_UNIT = 256
"""Registers are allocated to warps in units of 256 (CUDA occupancy calculator, every generation since Maxwell)."""


@dataclass(frozen=True)
class Phase:
    """The work of a launch for one image between two barriers of its blocks, counted or estimated.

    instructions: warp-instructions of all blocks. longest: those of the longest warp. waits: how often all warps wait
    for a load at the same time. loaded: bytes that all lanes load through the L1 cache, 0 if that is no limit.
    """

    instructions: float
    longest: float
    waits: float = 0.0
    loaded: float = 0.0


@dataclass(frozen=True)
class Work:
    """The work of a launch for one image.

    blocks: of the grid. threads: of a block. registers: of a thread. shared_bytes: of a block.
    """

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    phases: tuple[Phase, ...]

    @property
    def instructions(self) -> float:
        """Warp-instructions of all blocks."""
        return sum(phase.instructions for phase in self.phases)

    @property
    def longest(self) -> float:
        """Warp-instructions of the longest warp, as if it were the same one in all phases."""
        return sum(phase.longest for phase in self.phases)


def busy_clocks(work: Work, architecture: Architecture) -> float:
    """Clocks of a launch, without launch overhead."""
    count, together = architecture.multiprocessors, _together(work, architecture)
    share = work.blocks / count
    part_rounds = max(1.0, share / together)
    warps = max(1.0, -(-work.threads // WARP) * min(share, together))

    def clocks(phase: Phase) -> float:
        issued, loaded = phase.instructions / (count * SCHEDULERS * EFFICIENCY), phase.loaded / (count * L1_BYTES)
        in_turns = (issued + loaded) * OVERLAPPING_WARPS / warps if phase.loaded else 0.0
        alone = part_rounds * phase.longest * LONE_CLOCKS
        return max(issued, loaded, in_turns, alone) + part_rounds * phase.waits * WAIT_CLOCKS

    return sum(clocks(phase) for phase in work.phases)


def rounds(work: Work, architecture: Architecture) -> int:
    """Number of rounds (waves) in which the multiprocessors execute the blocks."""
    return -(-work.blocks // (_together(work, architecture) * architecture.multiprocessors))


def _together(work: Work, architecture: Architecture) -> int:
    """Blocks that a multiprocessor executes at once; 1 for work that does not fit."""
    return max(1, resident_blocks(work.threads, work.registers, work.shared_bytes, architecture))


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
