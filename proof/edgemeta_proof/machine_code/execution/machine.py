"""Executes a launch of a kernel: the lanes of several blocks side by side, basic block by basic block.

The lanes whose next instruction has the lowest address are executed together, across warps and blocks. Warps that
follow another order give the same result: shared_memory.py refuses every access whose result depends on it.

Blocks that wait for each other, with atomic additions or as a cluster, are all executed in one wave. A lane that reads
a word again because another block has not changed it stands aside until nobody else can go on. `order` says which
blocks go on first: with "forward" or "reverse" the first or last one goes on as far as it can, so that a barrier of all
blocks that does not hold it back lets it read what the others have not written.
"""

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from edgemeta_proof.machine_code.execution.atomics import check_fences, has_atomics, is_poll
from edgemeta_proof.machine_code.execution.cluster import ARRIVE, WAIT, ClusterBarrier, check_cluster_fences
from edgemeta_proof.machine_code.execution.convergence import AT_BARRIER, AT_CLUSTER, DONE, POLLS, Convergence
from edgemeta_proof.machine_code.execution.cubin import Kernel
from edgemeta_proof.machine_code.execution.global_memory import GlobalMemory
from edgemeta_proof.machine_code.execution.opcodes import WITHOUT_EFFECT, step_of
from edgemeta_proof.machine_code.execution.operands import Test, predicate_number, test
from edgemeta_proof.machine_code.execution.shared_memory import SharedMemory
from edgemeta_proof.machine_code.execution.wave import Observer, Wave
from edgemeta_proof.machine_code.execution.words import (
    WARP,
    ExecutionError,
    Flags,
    Mask,
    Words,
    by_warp,
    refuse,
    uniform,
)
from edgemeta_proof.machine_code.sass import Instruction

_LANES = 8192  # of a wave: registers stay in the processor's cache
_JUMPS = frozenset({"BRA", "CALL", "EXIT", "SYNC", "BRK", "BSYNC", "BAR", "WARPSYNC", ARRIVE, WAIT})
_TOKENS = frozenset({"SSY", "PBK", "BSSY", "BREAK", "BMOV"})
_STEP_LIMIT = 10_000_000

Order: TypeAlias = Literal["together", "forward", "reverse"]
"""Of the blocks that wait for each other."""


class Program:
    """The instructions of a kernel as functions. Raises ExecutionError for one that is not modelled."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.instructions = kernel.code.instructions
        self._ends = _block_ends(self.instructions)
        self.guards = [_guard(each) for each in self.instructions]
        self._steps = [
            None if each.base in _JUMPS | _TOKENS | WITHOUT_EFFECT else step_of(each, kernel.is_before_volta)
            for each in self.instructions
        ]
        self._polls = frozenset(n for n, each in enumerate(self.instructions) if is_poll(each))
        self.issued = np.zeros(len(self.instructions), np.int64)
        for each in self.instructions:
            _check_control(each)
        check_fences(kernel.code)
        check_cluster_fences(kernel.code)

    def end(self, first: int) -> int:
        """End of the basic block that starts at an index."""
        return self._ends[first]

    def polls(self, first: int, end: int) -> bool:
        """Whether one of these instructions reads a word that another block changes."""
        return not self._polls.isdisjoint(range(first, end))

    def run(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, memory: GlobalMemory,
        pointers: Sequence[int], numbers: Sequence[int] = (), order: Order = "together",
        only: Sequence[tuple[int, int, int]] | None = None, observer: Observer | None = None,
    ) -> None:  # fmt: skip
        """Execute all blocks, or only some. Raises ExecutionError.

        shared: bytes of dynamic shared memory. numbers: int parameters after the pointers.
        """
        banks = self._banks(grid, block, pointers, numbers)
        waits = has_atomics(self.kernel.code) or self.kernel.cluster > 1
        if prod(grid) % self.kernel.cluster:
            raise ExecutionError(f"a grid of {prod(grid)} blocks is no number of clusters of {self.kernel.cluster}")
        memory.is_written_by_phases = waits
        threads = block[0] * block[1] * block[2]
        size = -(-self.kernel.shared_bytes // 16) * 16 + shared
        every = product(range(grid[2]), range(grid[1]), range(grid[0]))
        blocks = [(x, y, z) for z, y, x in every] if only is None else only
        together = len(blocks) if waits else max(1, _LANES // (-(-threads // WARP) * WARP))
        for start in range(0, len(blocks), together):
            part = blocks[start : start + together]
            special = special_registers(part, block, self.kernel.cluster)
            shared_memory = SharedMemory(len(part), size, self.kernel.cluster)
            wave = Wave(threads, special, banks, memory, shared_memory, observer)
            _Machine(self, wave, order).run()

    def _banks(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], pointers: Sequence[int], numbers: Sequence[int]
    ) -> dict[tuple[int, int], Words]:
        offset, size = self.kernel.parameters
        given = 8 * len(pointers) + 4 * len(numbers)
        if size != given:
            raise ExecutionError(f"{self.kernel.entry} takes {size} bytes of parameters, not {given}")
        old = self.kernel.is_before_volta
        words = {8 * old + 4 * n: size for n, size in enumerate((*block, *grid))}
        # The stack pointer, and from sm_80 on the descriptor of global memory: values that nothing depends on.
        words |= dict.fromkeys((0x20,) if old else (0x28, 0x118, 0x11C, 0x208, 0x20C), 0)
        for n, pointer in enumerate(pointers):
            words |= {offset + 8 * n: pointer & 0xFFFFFFFF, offset + 8 * n + 4: pointer >> 32}
        words |= {offset + 8 * len(pointers) + 4 * n: number for n, number in enumerate(numbers)}
        banks = {(0, address): uniform(value) for address, value in words.items()}
        return banks | {(2, address): uniform(value) for address, value in self.kernel.code.constants.items()}

    def execute(self, wave: Wave, convergence: Convergence, first: int, end: int, every: bool) -> None:
        """The instructions of a basic block without the jump at its end."""
        base = None if every else wave.active
        for index in range(first, end):
            guard, step = self.guards[index], self._steps[index]
            each = self.instructions[index]
            if step is None and each.base not in _TOKENS:
                continue
            mask: Mask = base
            if guard is not None:
                flags = guard(wave)
                if len(flags) > 1:
                    mask = flags if base is None else flags & base
                elif not flags[0]:
                    continue
            if step is None:
                _token(each, convergence, wave.running(mask))
            else:
                step(wave, mask)


def _token(each: Instruction, convergence: Convergence, lanes: Flags) -> None:
    if each.base in ("SSY", "PBK", "BSSY") and each.target is None:
        raise refuse(each, "it has no target")
    if each.base == "BSSY":
        convergence.put(lanes, _slot(each), each.target or 0)
    elif each.base in ("SSY", "PBK"):
        convergence.push(lanes, each.target or 0, each.base)
    elif each.base == "BREAK":
        convergence.clear(lanes, _slot(each))


def _slot(each: Instruction) -> int:
    return int(next(name for name in each.operands if name.startswith("B"))[1:])


class _Machine:
    """One wave."""

    def __init__(self, program: Program, wave: Wave, order: Order) -> None:
        self.program = program
        self.order = order
        self.progressed = True
        self.wave = wave
        self.convergence = Convergence(wave.exists)
        self.cluster = ClusterBarrier(wave.block // program.kernel.cluster)

    def run(self) -> None:
        pc = self.convergence.pc
        for _ in range(_STEP_LIMIT):
            first, running = self._next()
            if first == DONE:
                return
            if first >= POLLS:
                self._wait()
                continue
            end = self.program.end(first)
            self.wave.active = running
            every = bool((self.wave.active | (pc == DONE)).all())
            last = self.program.instructions[end - 1]
            jumps = last.base in _JUMPS
            if self.wave.observer is not None:
                self.wave.observer.segment(first, end, self.wave.active)
            self.program.execute(self.wave, self.convergence, first, end - jumps, every)
            taken = self._taken(last, end - 1) if jumps else np.zeros_like(self.wave.active)
            if end == len(self.program.instructions) and not taken.all():
                raise ExecutionError("the kernel runs beyond its end")
            polls = self._polls_again(last, taken, first, end)
            if not polls:
                self.program.issued[first:end] += np.count_nonzero(by_warp(running).any(axis=1))
                self.progressed = True
            pc[self.wave.active & ~taken] = end
            if polls:
                if self.wave.observer is not None:
                    self.wave.observer.polls_again(taken)
                self.convergence.resume[taken] = last.target or 0
                pc[taken] = POLLS
            elif jumps and taken.any():
                self._jump(last, taken, end)
        raise ExecutionError("the kernel does not terminate")

    def _next(self) -> tuple[int, Flags]:
        """The lowest address of a lane that can go on, and the lanes there; in order of the blocks, if there is one."""
        pc = self.convergence.pc
        first = int(pc.min())
        if self.order == "together" or first >= POLLS:
            return first, pc == first
        if (pc == AT_BARRIER).any():  # its own barrier does not hold a block back
            self._pass_barrier(may_fail=False)
        blocks = self.wave.block[pc < POLLS]
        mine = self.wave.block == (blocks.min() if self.order == "forward" else blocks.max())
        first = int(pc[mine].min())
        return first, mine & (pc == first)

    def _polls_again(self, last: Instruction, taken: Flags, first: int, end: int) -> bool:
        """Whether lanes jump back to read a word again."""
        back = last.base == "BRA" and last.target is not None and last.target <= first and bool(taken.any())
        return back and self.program.polls(first, end)

    def _wait(self) -> None:
        """Nobody can go on: open the barriers that are complete, else let those that poll look again."""
        convergence = self.convergence
        polling = convergence.pc == POLLS
        if self._pass_cluster() or self._pass_barrier(may_fail=not polling.any()):
            return
        if not self.progressed:
            raise ExecutionError("the blocks wait for each other for ever")
        self.progressed = False
        convergence.pc[polling] = convergence.resume[polling]

    def _taken(self, last: Instruction, index: int) -> Flags:
        guard = self.program.guards[index]
        taken = self.wave.active if guard is None else self.wave.active & guard(self.wave)
        if last.modifiers in (("CONV",), ("DIV",)):  # taken if the lanes of a warp are together, or apart
            if self._are_apart(taken):
                raise refuse(last, "the lanes of a warp are apart, what follows is not modelled")
            return taken if last.modifiers == ("CONV",) else np.zeros_like(taken)
        for n, name in enumerate(last.operands):
            if last.base == "BRA" and name.lstrip("!").lstrip("U").startswith("P"):
                taken = taken & test(last, n)(self.wave)
        return taken

    def _are_apart(self, lanes: Flags) -> bool:
        """Whether some of these lanes are here without other lanes of their warp."""
        others = by_warp((self.convergence.pc != DONE) & ~lanes)
        return bool((by_warp(lanes).any(axis=1, keepdims=True) & others).any())

    def _jump(self, last: Instruction, taken: Flags, end: int) -> None:
        convergence = self.convergence
        match last.base:
            case "EXIT":
                convergence.end(taken)
            case "SYNC":
                convergence.sync(taken)
            case "BRK":
                convergence.leave(taken)
            case "BSYNC":
                convergence.wait(taken, _slot(last))
            case "WARPSYNC":
                if last.modifiers != ("ALL",) and last.operands != ("0xffffffff",):
                    raise refuse(last, "lanes that wait for a part of their warp are not modelled")
                convergence.meet(taken, end)
            case "BAR" | "UCGABAR_ARV" | "UCGABAR_WAIT":
                if self._are_apart(taken):
                    raise refuse(last, "some threads of a warp reach this barrier without the others")
                self._at_barrier(last, taken, end)
            case _:
                if last.target is None:
                    raise refuse(last, "it has no target in the kernel")
                convergence.pc[taken] = last.target

    def _at_barrier(self, last: Instruction, lanes: Flags, end: int) -> None:
        if last.base == ARRIVE:
            self.cluster.arrive(lanes)
            self.convergence.pc[lanes] = end
            return
        if last.base == WAIT:
            self.cluster.wait(lanes)
        self.convergence.resume[lanes] = end
        self.convergence.pc[lanes] = AT_CLUSTER if last.base == WAIT else AT_BARRIER

    def _pass_cluster(self) -> bool:
        """Let the lanes go on for which their cluster's barrier is complete; whether there were any."""
        convergence = self.convergence
        lanes = self.cluster.opened(convergence.pc == AT_CLUSTER, convergence.pc == DONE)
        convergence.pc[lanes] = convergence.resume[lanes]
        self.wave.shared.epoch[np.unique(self.wave.block[lanes])] += 1
        self.progressed |= bool(lanes.any())
        return bool(lanes.any())

    def _pass_barrier(self, may_fail: bool) -> bool:
        """Let the blocks go on of which all threads that have not ended wait at the same barrier; whether any did."""
        wave, convergence = self.wave, self.convergence
        shape = (wave.shared.blocks, -1)
        waits, ended = (np.reshape(convergence.pc == value, shape) for value in (AT_BARRIER, DONE))
        ready = (waits | ended).all(axis=1) & waits.any(axis=1)
        if not ready.any():
            if not may_fail:
                return False
            raise ExecutionError("some threads wait at a barrier or for each other, the others never come")
        places = np.reshape(convergence.resume, shape)[ready]
        low, high = (np.where(waits[ready], places, end) for end in (DONE, -1))
        if (low.min(axis=1) != high.max(axis=1)).any():
            raise ExecutionError("the threads of a block wait at different barriers")
        wave.shared.epoch[ready] += 1
        lanes = np.repeat(ready, waits.shape[1]) & waits.reshape(-1)
        convergence.pc[lanes] = convergence.resume[lanes]
        self.progressed = True
        return True


def _guard(each: Instruction) -> Test | None:
    if each.guard is None:
        return None
    number = predicate_number(each.guard)
    if each.negated:
        return lambda wave: ~wave.predicates[number]
    return lambda wave: wave.predicates[number]


def _check_control(each: Instruction) -> None:
    """Raise ExecutionError for forms of jumps and barriers that are not modelled.

    A call is a jump: from Volta on, where it returns to is in registers that other instructions have set.
    """
    forms: dict[str, list[tuple[str, ...]]] = {
        "BAR": [("SYNC",), ("SYNC", "DEFER_BLOCKING")],
        "BMOV": [("32",), ("32", "CLEAR")],
        "BRA": [(), ("U",), ("CONV",), ("DIV",)],
        "CALL": [("REL", "NOINC")],
        "WARPSYNC": [(), ("ALL",), ("COLLECTIVE",)],
    }
    if each.base in _JUMPS | _TOKENS and each.modifiers not in forms.get(each.base, [()]):
        raise refuse(each, "its modifiers are not modelled")
    if each.base == "BAR" and each.operands != ("0x0",):
        raise refuse(each, "only barrier 0 for all threads is modelled")
    if each.base == "BRA" and (each.target is None or any(name.startswith("CC.") for name in each.operands)):
        raise refuse(each, "a jump by flags or to several targets is not modelled")


def special_registers(
    blocks: Sequence[tuple[int, int, int]], block: tuple[int, int, int], cluster: int = 1
) -> dict[str, Words]:
    """The registers that S2R reads, for every lane. cluster: blocks of a cluster, which are neighbours in x."""
    lanes = -(-block[0] * block[1] * block[2] // WARP) * WARP
    lane = np.tile(np.arange(lanes, dtype=np.int32), len(blocks))
    index = np.repeat(np.array(blocks, np.int32), lanes, axis=0)
    return {
        "SR_TID.X": lane % np.int32(block[0]),
        "SR_TID.Y": lane // np.int32(block[0]) % np.int32(block[1]),
        "SR_TID.Z": lane // np.int32(block[0] * block[1]),
        **{f"SR_CTAID.{axis}": np.ascontiguousarray(index[:, n]) for n, axis in enumerate("XYZ")},
        "SR_LANEID": lane % np.int32(WARP),
        "SR_CgaCtaId": np.ascontiguousarray(index[:, 0]) % np.int32(cluster),  # the block's number in its cluster
    }


def _block_ends(instructions: Sequence[Instruction]) -> dict[int, int]:
    """End of the basic block that starts at an index, for every start."""
    starts = {0, len(instructions)}
    for index, each in enumerate(instructions):
        if each.base in _JUMPS:
            starts.add(index + 1)
        if each.target is not None:
            starts.add(each.target)
    return dict(pairwise(sorted(starts)))
