"""The state of the lanes that execute together: several blocks of one launch, side by side."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import numpy as np

from edgemeta_proof.machine_code.execution.global_memory import GlobalMemory
from edgemeta_proof.machine_code.execution.shared_memory import SharedMemory
from edgemeta_proof.machine_code.execution.words import WARP, Flags, Mask, Wide, Words, uniform

RZ, URZ, PT, UPT = 255, 256 + 63, 7, 8 + 7
_REGISTERS, _PREDICATES = 256 + 64, 16


class Observer(Protocol):
    """Receives what a wave executes."""

    def segment(self, first: int, end: int, active: Flags) -> None:
        """The active lanes begin with the instructions first .. end-1."""
        ...

    def polls_again(self, lanes: Flags) -> None:
        """What some lanes did last was to read a word that no other block had changed yet; they will do it again."""
        ...

    def access(self, address: int, lanes: Wide, where: Wide, width: int, is_shared: bool) -> None:
        """The instruction at an address accesses `width` bytes at `where` for some lanes, in ascending order."""
        ...


Content: TypeAlias = Callable[[int], tuple[list[Words], list[Flags]]]
"""The registers and predicates of a number of lanes before a kernel begins."""


def garbage(lanes: int) -> tuple[list[Words], list[Flags]]:
    """Anything in every lane, so that a register which is read before it is written is noticed."""
    random = np.random.default_rng(1)
    registers: list[Words] = [random.integers(-(1 << 31), 1 << 31, lanes, np.int32) for _ in range(_REGISTERS)]
    registers[URZ - 63 :] = [uniform(0x5A5A0000 + n) for n in range(64)]  # uniform in fact
    registers[RZ] = registers[URZ] = uniform(0)
    predicates: list[Flags] = [random.integers(0, 2, lanes).astype(np.bool_) for _ in range(_PREDICATES)]
    predicates[PT] = predicates[UPT] = np.ones(1, np.bool_)
    return registers, predicates


def zeros(_: int) -> tuple[list[Words], list[Flags]]:
    """The same zero in all lanes, which takes no memory."""
    predicates = [np.zeros(1, np.bool_) for _ in range(_PREDICATES)]
    predicates[PT] = predicates[UPT] = np.ones(1, np.bool_)
    return [uniform(0) for _ in range(_REGISTERS)], predicates


class Wave:
    """Registers, predicates and memories of `blocks` blocks; the lanes of a warp are adjacent, warps fill up to 32.

    Registers R0 .. R254, RZ are 0 .. 255, uniform ones follow; predicates P0 .. P6, PT are 0 .. 7, uniform ones follow.
    content: what they hold at first. special: the registers of S2R. banks: constants, a word per (bank, offset).
    """

    def __init__(
        self,
        threads: int,
        special: Mapping[str, Words],
        banks: Mapping[tuple[int, int], Words],
        memory: GlobalMemory,
        shared: SharedMemory,
        observer: Observer | None = None,
        content: Content = garbage,
    ) -> None:
        self.observer = observer
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
        self.registers, self.predicates = content(self.lanes)
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
