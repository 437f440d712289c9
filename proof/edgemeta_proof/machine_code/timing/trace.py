"""Traces of the warps of a launch: which basic blocks they run and what their memory accesses cost.

The blocks are executed on data (machine_code/execution), so addresses and branches are those of a real run. Buffers
hold arbitrary bytes; the time of a kernel depends on them only through look-ups in tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.plan import launch_memory
from edgemeta_proof.machine_code.execution.words import WARP, Flags, Wide

SECTOR, LINE = 32, 128
"""Bytes that a cache loads at once, and of a cache line (Greg Smith of NVIDIA, developer forum, "Pascal L1 cache")."""
_BANKS = 32
_BATCH = 16  # blocks that are executed at once


@dataclass(frozen=True)
class Access:
    """A memory access of a warp.

    passes: over the banks of shared memory. look_ups: of a cache line in the L1 cache, by groups of lanes, once for
    every four bytes of a lane. sectors: of global memory, each once.
    """

    passes: int = 0
    look_ups: int = 0
    sectors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Segment:
    """A warp runs the instructions first .. end-1. accesses: of its loads and stores, by index of the instruction."""

    first: int
    end: int
    accesses: dict[int, Access]


Warp: TypeAlias = list[Segment]
Block: TypeAlias = list[Warp]


@dataclass
class Recorder:
    """Notes what a wave executes. place: index of the instruction at an address. group: lanes that look up together.

    streams: of the warps. lanes, moved: by instruction, how many lanes executed it, and bytes that they accessed.
    """

    place: dict[int, int]
    warps: int
    group: int
    streams: list[Warp] = field(init=False)
    lanes: Wide = field(init=False)
    moved: Wide = field(init=False)
    _current: list[Segment | None] = field(init=False)

    def __post_init__(self) -> None:
        self.lanes, self.moved = np.zeros((2, len(self.place)), np.int64)
        self.streams = [[] for _ in range(self.warps)]
        self._current = [None] * self.warps

    def segment(self, first: int, end: int, active: Flags) -> None:
        """The active lanes begin with a basic block."""
        self.lanes[first:end] += np.count_nonzero(active)
        for warp in np.flatnonzero(active.reshape(-1, WARP).any(axis=1)).tolist():
            segment = Segment(first, end, {})
            self._current[warp] = segment
            self.streams[warp].append(segment)

    def polls_again(self, lanes: Flags) -> None:
        """Forget what these lanes did last: a simulation knows for itself how often they do it."""
        for warp in np.flatnonzero(lanes.reshape(-1, WARP).any(axis=1)).tolist():
            segment = self.streams[warp].pop()
            self.lanes[segment.first : segment.end] -= 1
            self.moved[list(segment.accesses)] -= 4

    def access(self, address: int, lanes: Wide, where: Wide, width: int, is_shared: bool) -> None:
        """The instruction at an address accesses `width` bytes at `where` for some lanes, in ascending order."""
        unit = 4 if is_shared else SECTOR
        warps = lanes // WARP
        span = max(1, width // unit)
        units = (where // unit)[:, None] + np.arange(span)
        base = int(units.min())
        size = int(units.max()) - base + 1
        keys = np.unique((warps[:, None] * size + (units - base)).reshape(-1))
        owner, units = keys // size, keys % size + base
        index = self.place[address]
        self.moved[index] += len(lanes) * width
        if is_shared:
            banks = np.bincount(owner * _BANKS + units % _BANKS, minlength=self.warps * _BANKS)
            passes = banks.reshape(-1, _BANKS).max(axis=1).tolist()
            for warp in np.unique(warps).tolist():
                self._note(warp, index, Access(passes=passes[warp]))
            return
        look_ups = self._look_ups(lanes, where, width)
        bounds = np.searchsorted(owner, np.arange(self.warps + 1)).tolist()
        sectors = units.tolist()
        for warp in np.unique(warps).tolist():
            found = tuple(sectors[bounds[warp] : bounds[warp + 1]])
            self._note(warp, index, Access(look_ups=look_ups[warp], sectors=found))

    def _look_ups(self, lanes: Wide, where: Wide, width: int) -> list[int]:
        """By warp: the different cache lines of each group of lanes, times the words of a lane."""
        lines = where // LINE
        size = int(lines.max()) - int(lines.min()) + 1
        groups = np.unique(lanes // self.group * size + lines - lines.min()) // size
        counts = np.bincount(groups * self.group // WARP, minlength=self.warps) * max(1, width // 4)
        found: list[int] = counts.tolist()
        return found

    def _note(self, warp: int, index: int, access: Access) -> None:
        segment = self._current[warp]
        assert segment is not None
        segment.accesses[index] = access


def trace(
    program: Program, launch: Launch, network_input: Buffer, blocks: Sequence[tuple[int, int, int]], group: int
) -> list[Block]:
    """Execute some blocks of a launch for image 0. group: lanes that look up the L1 cache together.

    Raises ExecutionError for machine code that is not modelled.
    """
    memory, pointers = launch_memory(launch, network_input)
    place = {each.address: n for n, each in enumerate(program.instructions)}
    traced: list[Block] = []
    grid, shared = (*launch.grid, 1), launch.shared_bytes
    warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // WARP)
    for start in range(0, len(blocks), _BATCH):
        part = blocks[start : start + _BATCH]
        recorder = Recorder(place, len(part) * warps, group)
        program.run(grid, launch.block, shared, memory, pointers, only=part, observer=recorder)
        traced += [recorder.streams[n * warps : (n + 1) * warps] for n in range(len(part))]
    return traced


def spread(grid: tuple[int, int], count: int) -> list[tuple[int, int, int]]:
    """`count` blocks at equal distances, in the order in which a grid is dispatched, x first."""
    blocks = grid[0] * grid[1]
    numbers = [n * blocks // count for n in range(count)]
    return [(n % grid[0], n // grid[0], 0) for n in numbers]
