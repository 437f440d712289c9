"""Counts how often each machine instruction of a kernel is issued, by executing its control flow for every thread.

Only instructions that determine branches are computed (a slice of the code, `semantics`); memory holds unknown values.
So every branch must depend on thread indexes, block indexes and constants only; a branch on loaded data is refused.

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

from edgemeta.kernels.cuda.machine_code.operands import MASK, Flags, Operands, Predicate, Value
from edgemeta.kernels.cuda.machine_code.sass import Code, Instruction, SassError
from edgemeta.kernels.cuda.machine_code.semantics import VALUES, predicates

WARP = 32
_DONE = 1 << 30
_STEP_LIMIT = 5_000_000

_JUMPS = {"BRA", "JMP", "BRX", "JMX", "BRXU", "SYNC", "BRK", "CONT", "BSYNC", "EXIT"}
_JUMPS |= {"CAL", "CALL", "JCAL", "RET"}  # a call without return address to a place in the kernel is a jump
_MARKS = {"SSY", "PBK", "PCNT", "BSSY"}
_NO_RESULT = {"ST", "STG", "STS", "STL", "RED", "BAR", "MEMBAR", "NOP", "DEPBAR", "TEXDEPBAR", "ERRBAR", "WARPSYNC"}
_NO_RESULT |= {"YIELD", "CCTL", "LDGSTS", "LDGDEPBAR"} | _JUMPS | _MARKS
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_REGISTER = re.compile(r"\bU?(?:R\d+|P\d+)\b")
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
        number = np.repeat(np.arange(grid[0] * grid[1]), warps * WARP)
        self.lanes = len(lane)
        self.every = np.ones(self.lanes, dtype=np.bool_)
        self.zero = Value(np.zeros(self.lanes, dtype=np.int64), self.every)
        self.special = {
            "SR_TID.X": lane % block[0],
            "SR_TID.Y": lane // block[0] % block[1],
            "SR_TID.Z": lane // (block[0] * block[1]),
            "SR_CTAID.X": number % grid[0], "SR_CTAID.Y": number // grid[0], "SR_CTAID.Z": np.zeros_like(lane),
            "SR_LANEID": lane % WARP,
        }  # fmt: skip
        dimensions = (*block, *grid, 1)
        bases = (0x8, 0x0)  # blockDim and gridDim in bank 0: Maxwell and Pascal, Volta and later
        old = any(each.base in ("XMAD", "SSY", "SYNC") or each.address == 8 for each in code.instructions)
        base = bases[0] if old else bases[1]
        self.bank = {f"c[0x0][{base + 4 * n:#x}]": size for n, size in enumerate(dimensions)}
        self.bank |= {f"c[0x2][{offset:#x}]": word for offset, word in code.constants.items()}
        # sm_8x code starts with a test of UR2, which it then sets to 1: assumed to be 0 initially.
        self.values: dict[str, Value] = {"UR2": Value(self.zero.words.copy(), self.every.copy())}
        self.predicates: dict[str, Predicate] = {}
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
            predicate = self._predicate(condition.removeprefix("!"))
            if not predicate.known[active].all():
                raise SassError(_unknown(last))
            taken &= predicate.flags ^ condition.startswith("!")
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
        guard = self._predicate(each.guard or "PT")
        sure = guard.flags ^ each.negated | ~guard.known
        size = int((active & sure).sum()) * next((_WIDTHS[m] for m in each.modifiers if m in _WIDTHS), 4)
        if each.base in ("LDG", "LD"):
            self.read_bytes += size
        else:
            self.written_bytes += size

    def _evaluate(self, each: Instruction, active: Flags) -> None:
        guard = self._predicate(each.guard or "PT")
        where = active & (guard.flags ^ each.negated | ~guard.known)
        operands = Operands(each, self._value, self._predicate, lambda: self._value("CC"))
        targets = results(each)
        if each.base in ("S2R", "S2UR"):
            words = self.special.get(each.operands[1])
            self._set(targets[0], Value(words, self.every) if words is not None else operands.unknown(), where, guard)
            return
        pair = predicates(operands)
        if pair is not None:
            for name, predicate in zip(each.operands[:2], pair, strict=True):
                self._decide(name, predicate, where, guard)
            return
        value = VALUES[each.base](operands) if each.base in VALUES else operands.unknown()
        single = len([name for name in targets if "P" not in name and name != "CC"]) <= 1
        for name in targets:
            if name.lstrip("U").startswith("P"):
                predicate = Predicate(value.words & MASK != 0, value.known & (each.base in ("LOP", "LOP3", "ULOP3")))
                self._decide(name, Predicate(predicate.flags ^ ("Z" in each.modifiers), predicate.known), where, guard)
            elif name == "CC":
                known = value.known & ("-" not in "".join(each.operands))  # a borrow is not modelled
                self._set(name, Value(value.words >> 32 & 1, known), where, guard)
            else:
                if value.high is not None and name != targets[0]:
                    self._set(name, Value(value.high, value.known), where, guard)
                    continue
                known = value.known & (single or value.high is not None)
                self._set(name, Value(value.words & MASK, known), where, guard)

    def _set(self, name: str, value: Value, where: Flags, guard: Predicate) -> None:
        if name not in self.values:
            self.values[name] = Value(self.zero.words.copy(), np.zeros_like(self.every))
        np.copyto(self.values[name].words, value.words, where=where)
        np.copyto(self.values[name].known, value.known & guard.known, where=where)

    def _decide(self, name: str, predicate: Predicate, where: Flags, guard: Predicate) -> None:
        if name in ("PT", "UPT"):
            return
        if name not in self.predicates:
            self.predicates[name] = Predicate(np.zeros_like(self.every), np.zeros_like(self.every))
        np.copyto(self.predicates[name].flags, predicate.flags, where=where)
        np.copyto(self.predicates[name].known, predicate.known & guard.known, where=where)

    def _value(self, name: str) -> Value:
        if name in ("RZ", "URZ"):
            return self.zero
        if "0x" in name[:3]:
            return Value(np.full(self.lanes, int(name, 16) & MASK), self.every)
        if name in self.bank:
            return Value(np.full(self.lanes, self.bank[name]), self.every)
        return self.values.get(name, Value(self.zero.words, np.zeros_like(self.every)))

    def _predicate(self, name: str) -> Predicate:
        if name in ("PT", "UPT"):
            return Predicate(self.every, self.every)
        return self.predicates.get(name, Predicate(np.zeros_like(self.every), np.zeros_like(self.every)))

    def _guard(self, each: Instruction, active: Flags) -> Flags:
        guard = self._predicate(each.guard or "PT")
        if not guard.known[active].all():
            raise SassError(_unknown(each))
        return guard.flags ^ each.negated

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
        f"the {each.opcode} at {each.address:#x} depends on loaded data, or on an instruction that semantics.py does "
        "not model: it cannot be counted"
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
            wanted |= set(_REGISTER.findall(" ".join(each.operands)))
            if {"HI", "WIDE"} & set(each.modifiers) and _is_register(each.operands[-1]):
                wanted.add(_next(each.operands[-1], 1))
            wanted |= {each.guard} if each.guard else set()
            wanted |= {"CC"} if "X" in each.modifiers else set()
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
