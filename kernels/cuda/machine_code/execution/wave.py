"""The state of the lanes that execute together: several blocks of one launch, side by side."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from edgemeta.kernels.cuda.machine_code.execution.global_memory import GlobalMemory
from edgemeta.kernels.cuda.machine_code.execution.shared_memory import SharedMemory
from edgemeta.kernels.cuda.machine_code.execution.words import WARP, Flags, Mask, Words, uniform

RZ, URZ, PT, UPT = 255, 256 + 63, 7, 8 + 7
_REGISTERS, _PREDICATES = 256 + 64, 16


class Wave:
    """Registers, predicates and memories of `blocks` blocks; the lanes of a warp are adjacent, warps fill up to 32.

    Registers R0 .. R254, RZ are 0 .. 255, uniform ones follow; predicates P0 .. P6, PT are 0 .. 7, uniform ones follow.
    All hold garbage at first. special: the registers that S2R reads. banks: constants, a word per (bank, offset).
    """

    def __init__(
        self,
        threads: int,
        special: Mapping[str, Words],
        banks: Mapping[tuple[int, int], Words],
        memory: GlobalMemory,
        shared: SharedMemory,
    ) -> None:
        self.special = special
        self.banks = banks
        self.memory = memory
        self.shared = shared
        self.warps_per_block = -(-threads // WARP)
        self.lanes = shared.blocks * self.warps_per_block * WARP
        lane = np.arange(self.lanes)
        self.exists: Flags = lane % (self.warps_per_block * WARP) < threads
        self.block = lane // (self.warps_per_block * WARP)
        self.warp = lane // WARP % self.warps_per_block
        self.active: Flags = self.exists
        garbage = np.random.default_rng(1)
        self.registers: list[Words] = [
            garbage.integers(-(1 << 31), 1 << 31, self.lanes, np.int32) for _ in range(_REGISTERS)
        ]
        self.registers[URZ - 63 :] = [uniform(0x5A5A0000 + n) for n in range(64)]  # uniform in fact
        self.registers[RZ] = self.registers[URZ] = uniform(0)
        self.predicates: list[Flags] = [garbage.integers(0, 2, self.lanes).astype(np.bool_) for _ in range(_PREDICATES)]
        self.predicates[PT] = self.predicates[UPT] = np.ones(1, np.bool_)
        self.carry: Words = uniform(0)
        self.local: dict[int, Words] = {}
        self.order: tuple[Flags, Flags] = (self.predicates[0], self.predicates[1])

    def set(self, number: int, words: Words, mask: Mask) -> None:
        """Write a register in the lanes of a mask."""
        if number not in (RZ, URZ):
            self.registers[number] = words if mask is None else np.where(mask, words, self.registers[number])

    def decide(self, number: int, flags: Flags, mask: Mask) -> None:
        """Write a predicate in the lanes of a mask."""
        if number not in (PT, UPT):
            self.predicates[number] = flags if mask is None else np.where(mask, flags, self.predicates[number])

    def running(self, mask: Mask) -> Flags:
        """The lanes that execute: all active ones, or those of a mask."""
        return self.active if mask is None else self.active & mask

    def spread(self, words: Words) -> Words:
        """One element per lane."""
        return np.broadcast_to(words, (self.lanes,))


Step: TypeAlias = Callable[[Wave, Mask], None]
"""Executes one instruction in the lanes of a mask."""
