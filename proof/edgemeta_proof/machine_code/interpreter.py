"""Counts how often each machine instruction of a kernel is issued, by executing its control flow for every thread.

Only instructions that determine branches are executed, a slice of the code, with the semantics of execution/. Thread
indexes, block indexes and constants are known, memory is not: for every register and lane it is noted whether its value
is known, and whether at least its low half is. So every branch must depend on what is known; a branch on loaded data is
refused.

Counting rules: an instruction issued for a warp counts once, however many of its lanes are active; both sides of a
branch count for a warp whose lanes diverge, otherwise only the side taken; a guarded instruction counts even if its
guard is false in every lane, because it uses an issue slot. Diverged lanes reconverge at the next address that both
reach: the lanes at the lowest address run first, so structured code reconverges.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.global_memory import GlobalMemory, Region
from edgemeta_proof.machine_code.execution.machine import special_registers
from edgemeta_proof.machine_code.execution.opcodes import step_of
from edgemeta_proof.machine_code.execution.operands import predicate_number
from edgemeta_proof.machine_code.execution.shared_memory import SharedMemory
from edgemeta_proof.machine_code.execution.wave import Step, Wave, zeros
from edgemeta_proof.machine_code.execution.words import WARP, ExecutionError, Flags, uniform
from edgemeta_proof.machine_code.sass import Code, Instruction, SassError

_DONE = 1 << 30
_STEP_LIMIT = 5_000_000

_JUMPS = {"BRA", "JMP", "BRX", "JMX", "BRXU", "SYNC", "BRK", "CONT", "BSYNC", "EXIT"}
_JUMPS |= {"CAL", "CALL", "JCAL", "RET"}  # a call without return address to a place in the kernel is a jump
_MARKS = {"SSY", "PBK", "PCNT", "BSSY"}
_NO_RESULT = {"ST", "STG", "STS", "STL", "RED", "BAR", "MEMBAR", "NOP", "DEPBAR", "TEXDEPBAR", "ERRBAR", "WARPSYNC"}
_NO_RESULT |= {"YIELD", "CCTL", "LDGSTS", "LDGDEPBAR"} | _JUMPS | _MARKS
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_REGISTER = re.compile(r"\bU?(?:R\d+|P\d+)\b")
_UNKNOWN = {"LDG", "LDS", "LDL", "LD", "SHFL", "IMMA", "HMMA", "ATOM", "ATOMS", "ATOMG", "VOTE", "VOTEU"}
"""Instructions whose results depend on memory or on other lanes."""
_CARRIES = {"IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD"}


@dataclass(frozen=True)
class ExecutionCounts:
    """Instructions that one launch issues for one image.

    issued: warp-instructions by opcode without modifiers. lanes: the same, counted per active lane. longest:
    warp-instructions of the longest warp. warps: of all blocks. read_bytes, written_bytes: accesses of lanes to global
    memory, ignoring caches. loops: trip counts above 1, by address of the loop's head, maximum over the warps.
    """

    issued: Mapping[str, int]
    lanes: Mapping[str, int]
    longest: int
    warps: int
    read_bytes: int
    written_bytes: int
    loops: tuple[int, ...]

    @property
    def warp_instructions(self) -> int:
        """Total of issued warp-instructions."""
        return sum(self.issued.values())


def run(code: Code, grid: tuple[int, int], block: tuple[int, int, int]) -> ExecutionCounts:
    """Execute the control flow of a launch. Raises SassError if a branch depends on data or leaves the kernel."""
    return _Machine(code, grid, block).run()


class _Machine:
    """All lanes of all blocks, side by side; warps are rows of 32."""

    def __init__(self, code: Code, grid: tuple[int, int], block: tuple[int, int, int]) -> None:
        self.code = code
        self.slice = _slice(code)
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // WARP)
        lane = np.tile(np.arange(warps * WARP), grid[0] * grid[1])
        self.lanes = len(lane)
        self.every = np.ones(self.lanes, dtype=np.bool_)
        self.none = np.zeros(self.lanes, dtype=np.bool_)
        dimensions = (*block, *grid, 1)
        old = any(each.base in ("XMAD", "SSY", "SYNC") or each.address == 8 for each in code.instructions)
        # blockDim and gridDim in bank 0: Maxwell and Pascal, Volta and later
        banks = {(0, 8 * old + 4 * n): uniform(size) for n, size in enumerate(dimensions)}
        banks |= {(2, offset): uniform(word) for offset, word in code.constants.items()}
        blocks = [(n % grid[0], n // grid[0], 0) for n in range(grid[0] * grid[1])]
        nothing = GlobalMemory([Region("nothing", 0, is_writable=False)])
        shared = SharedMemory(len(blocks), 0)
        self.wave = Wave(threads, special_registers(blocks, block), banks, nothing, shared, content=zeros)
        # sm_8x code starts with a test of UR2, which it then sets to 1: assumed to be 0 initially.
        self.known: dict[str, Flags] = {"UR2": self.every}
        self.low_known: dict[str, Flags] = {}
        self.steps = {each: _step(each, old) for each in self.slice.needed}
        self.barriers: dict[str, NDArray[np.int64]] = {}
        self.pc = np.where(lane < threads, 0, _DONE)
        self.issues = np.zeros(len(code.instructions), dtype=np.int64)
        self.lane_issues = np.zeros(len(code.instructions), dtype=np.int64)
        self.lengths = np.zeros(self.lanes // WARP, dtype=np.int64)
        self.heads: dict[int, NDArray[np.int64]] = {}
        self.backs: dict[int, NDArray[np.int64]] = {}
        self.read_bytes = self.written_bytes = 0

    def run(self) -> ExecutionCounts:
        ends = _block_ends(self.code)
        for _ in range(_STEP_LIMIT):
            first = int(self.pc.min())
            if first == _DONE:
                return self._result()
            self._block(first, ends[first])
        raise SassError("the kernel does not terminate")

    def _block(self, first: int, end: int) -> None:
        active = self.pc == first
        warps = _by_warp(active)
        count, lanes = int(warps.sum()), int(active.sum())
        self.issues[first:end] += count
        self.lane_issues[first:end] += lanes
        self.lengths[warps] += end - first
        if first in self.slice.heads:
            self.heads.setdefault(first, np.zeros_like(self.lengths))[warps] += 1
        for index in self.slice.work[first:end]:
            if index is not None:
                self._step(self.code.instructions[index], active)
        last = self.code.instructions[end - 1]
        taken = self._taken(last, active) if last.base in _JUMPS else np.zeros_like(active)
        self.pc[active] = end if end < len(self.code.instructions) else _DONE
        if taken.any():
            self._jump(end - 1, last, taken)

    def _taken(self, last: Instruction, active: Flags) -> Flags:
        """Lanes that jump. BRA.CONV and BRA.DIV test whether all running lanes of the warp are at this instruction."""
        taken = active & self._guard(last, active)
        for condition in _conditions(last):
            if condition.startswith("CC."):
                raise SassError(f"the {last.opcode} at {last.address:#x} tests flags, which are not modelled")
            flags, known = self._predicate(condition.removeprefix("!"))
            if not known[active].all():
                raise SassError(_unknown(last))
            taken &= flags ^ condition.startswith("!")
        if {"CONV", "DIV"} & set(last.modifiers):
            parted = _by_warp((self.pc != _DONE) & ~active)
            taken &= np.repeat(parted if "DIV" in last.modifiers else ~parted, WARP)
        return taken

    def _jump(self, index: int, last: Instruction, taken: Flags) -> None:
        if last.base == "EXIT":
            self.pc[taken] = _DONE
            return
        if last.base == "BSYNC":
            self.pc[taken] = self.barriers[last.operands[0]][taken]
            return
        if last.target is None:
            raise SassError(f"the {last.opcode} at {last.address:#x} has no single target and cannot be counted")
        self.pc[taken] = last.target
        if last.target <= index:
            self.backs.setdefault(last.target, np.zeros_like(self.lengths))[_by_warp(taken)] += 1

    def _step(self, each: Instruction, active: Flags) -> None:
        if each.base in ("LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG"):
            self._memory(each, active)
        if each.base == "BSSY" and each.target is not None:
            self.barriers.setdefault(each.operands[0], np.zeros_like(self.pc))[active] = each.target
        if each in self.slice.needed:
            self._evaluate(each, active)

    def _memory(self, each: Instruction, active: Flags) -> None:
        flags, known = self._predicate(each.guard or "PT")
        sure = flags ^ each.negated | ~known
        size = int((active & sure).sum()) * next((_WIDTHS[m] for m in each.modifiers if m in _WIDTHS), 4)
        if each.base in ("LDG", "LD"):
            self.read_bytes += size
        else:
            self.written_bytes += size

    def _evaluate(self, each: Instruction, active: Flags) -> None:
        """Execute an instruction; its results are known in the lanes in which its guard and its sources are."""
        flags, guarded = self._predicate(each.guard or "PT")
        where = active & (flags ^ each.negated | ~guarded)
        known, halves = guarded, _low_halves(each)
        for name in sources(each):
            known = known & (self.low_known if name in halves else self.known).get(name, self.none)
        kept = _kept_half(each)
        low = known if kept is None else guarded & self.low_known.get(kept, self.none)
        step, targets = self.steps[each], results(each)
        self.wave.active = active
        try:
            if step is None:
                known = low = self.none
            else:
                step(self.wave, None if where.all() else where)
        except ExecutionError:
            known = low = self.none
        for name in targets:
            self.known[name] = np.where(where, known, self.known.get(name, self.none))
            self.low_known[name] = np.where(where, low, self.low_known.get(name, self.none))

    def _predicate(self, name: str) -> tuple[Flags, Flags]:
        """Flags of a predicate, and in which lanes they are known."""
        if name in ("PT", "UPT"):
            return self.every, self.every
        flags = np.broadcast_to(self.wave.predicates[predicate_number(name)], self.every.shape)
        return flags, self.known.get(name, self.none)

    def _guard(self, each: Instruction, active: Flags) -> Flags:
        flags, known = self._predicate(each.guard or "PT")
        if not known[active].all():
            raise SassError(_unknown(each))
        return flags ^ each.negated

    def _result(self) -> ExecutionCounts:
        issued: Counter[str] = Counter()
        lanes: Counter[str] = Counter()
        for each, count, lane_count in zip(self.code.instructions, self.issues, self.lane_issues, strict=True):
            issued[each.base] += int(count)
            lanes[each.base] += int(lane_count)
        loops = [_trips(self.heads[head], back) for head, back in sorted(self.backs.items())]
        return ExecutionCounts(
            issued=+issued,
            lanes=+lanes,
            longest=int(self.lengths.max()),
            warps=len(self.lengths),
            read_bytes=self.read_bytes,
            written_bytes=self.written_bytes,
            loops=tuple(trips for trips in loops if trips > 1),
        )


def _unknown(each: Instruction) -> str:
    return (
        f"the {each.opcode} at {each.address:#x} depends on loaded data, or on an instruction that is not modelled: it "
        "cannot be counted"
    )


def _conditions(jump: Instruction) -> list[str]:
    """Conditions of a jump in addition to its guard: predicates, or flags of the carry register."""
    return [each for each in jump.operands if re.fullmatch(r"!?U?P[T0-9]|CC\.(?!T$)\w+", each)]


def _trips(runs: NDArray[np.int64], backs: NDArray[np.int64]) -> int:
    """Iterations of a loop per entry, maximum over the warps."""
    entries = runs - backs
    return int(np.max(-(-runs[entries > 0] // entries[entries > 0])))


def _by_warp(lanes: Flags) -> Flags:
    return np.asarray(lanes.reshape(-1, WARP).any(axis=1))


@dataclass(frozen=True)
class _Slice:
    """The instructions to evaluate.

    needed: instructions whose results determine a branch. work: by index, the index if needed or watched, else None.
    heads: indexes that are the target of a later branch.
    """

    needed: frozenset[Instruction]
    work: tuple[int | None, ...]
    heads: frozenset[int]


def _slice(code: Code) -> _Slice:
    wanted = {each.guard for each in code.instructions if each.guard and _is_watched(each)}
    for each in code.instructions:
        if each.base in _JUMPS:
            wanted |= {condition.removeprefix("!") for condition in _conditions(each)}
    needed: set[Instruction] = set()
    while True:
        added = {each for each in code.instructions if each not in needed and wanted & set(results(each))}
        if not added:
            break
        needed |= added
        for each in added:
            wanted |= set(sources(each)) | ({each.guard} if each.guard else set())
    work = tuple(n if each in needed or _is_watched(each) else None for n, each in enumerate(code.instructions))
    heads = {each.target for n, each in enumerate(code.instructions) if each.target is not None and each.target <= n}
    return _Slice(frozenset(needed), work, frozenset(heads))


def _is_watched(each: Instruction) -> bool:
    return each.base in _JUMPS | {"BSSY", "LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG"}


def results(each: Instruction) -> list[str]:
    """Registers and predicates that an instruction writes, "CC" for the carry."""
    if each.base in _NO_RESULT or not each.operands:
        return []
    first = each.operands[0]
    named = [first.partition(".")[0]]
    if first.lstrip("U").startswith("P") or (each.base in _CARRIES and re.fullmatch(r"U?P\d", each.operands[1])):
        named.append(each.operands[1].partition(".")[0])
    if first == "PR":
        named = [f"P{n}" for n in range(7)]
    words = _result_words(each)
    wide = [_next(name, n) for name in named if _is_register(name) for n in range(1, words)]
    carry = ["CC"] if ".CC" in first or (len(each.operands) > 1 and ".CC" in each.operands[1]) else []
    return [name for name in named + wide + carry if name not in ("RZ", "URZ", "PT", "UPT")]


def sources(each: Instruction) -> list[str]:
    """Registers and predicates that an instruction reads, "CC" for the carry; without its guard."""
    others = each.operands[1:]
    targets = 2 if _sets_predicates(each) else 1
    read = _REGISTER.findall(" ".join(each.operands[targets:]))
    if each.base in ("IMAD", "UIMAD") and {"HI", "WIDE"} & set(each.modifiers) and _is_register(each.operands[-1]):
        read.append(_next(each.operands[-1], 1))
    if "PR" in others:
        read += [f"P{n}" for n in range(7)]
    carry = ["CC"] if "X" in each.modifiers and not any(re.fullmatch(r"!?U?P[T0-9]", name) for name in others) else []
    return [name for name in read + carry if name not in ("RZ", "URZ", "PT", "UPT")]


def _low_halves(each: Instruction) -> set[str]:
    """Registers of which an instruction reads only the low half: factors of XMAD that are not marked H1."""
    if each.base != "XMAD":
        return set()
    factors, rest = each.operands[1:3], each.operands[3:]
    whole = _REGISTER.findall(" ".join((*rest, *(factor for factor in factors if factor.endswith(".H1")))))
    return {factor for factor in factors if _is_register(factor)}.difference(whole)


def _kept_half(each: Instruction) -> str | None:
    """The register whose low half becomes the result's: XMAD.PSL adds its product, shifted left by 16, to the third.

    The compiler joins a known low half with whatever another register has above it, and reads the low half again.
    """
    is_shifted = each.base == "XMAD" and "PSL" in each.modifiers and "MRG" not in each.modifiers
    return each.operands[3] if is_shifted and _is_register(each.operands[3]) else None


def _sets_predicates(each: Instruction) -> bool:
    """Whether the second operand is a predicate that the instruction writes, too."""
    if len(each.operands) < 2:
        return False
    first, second = each.operands[:2]
    return first.lstrip("U").startswith("P") or (each.base in _CARRIES and re.fullmatch(r"U?P\d", second) is not None)


def _step(each: Instruction, old: bool) -> Step | None:
    """The function that executes an instruction; None if it is not modelled, or depends on memory or other lanes."""
    if each.base in _UNKNOWN:
        return None
    try:
        return step_of(each, old)
    except ExecutionError:
        return None


def _next(name: str, count: int) -> str:
    """The register `count` numbers after another."""
    kind = name.rstrip("0123456789")
    return f"{kind}{int(name.removeprefix(kind)) + count}"


def _is_register(name: str) -> bool:
    return re.fullmatch(r"U?R\d+", name) is not None


def _result_words(each: Instruction) -> int:
    """32-bit registers that hold an instruction's result."""
    if "128" in each.modifiers or each.base in ("IMMA", "HMMA"):
        return 4
    if "64" in each.modifiers or "WIDE" in each.modifiers or (each.base == "CS2R" and "32" not in each.modifiers):
        return 2
    return 1


def _block_ends(code: Code) -> dict[int, int]:
    """End of the basic block that starts at an index, for every start index."""
    starts = {0}
    for index, each in enumerate(code.instructions):
        if each.base in _JUMPS:
            starts.add(index + 1)
        if each.target is not None:
            starts.add(each.target)
    ordered = sorted(starts | {len(code.instructions)})
    return dict(pairwise(ordered))
