"""Simulates a multiprocessor: four schedulers that issue the instructions of their warps in order.

An instruction issues when the warp's stall is over, the scoreboards that it waits for are released and its unit is
free. Of the warps that can issue, the one that has been able to for the longest time does (a guess: the policy is not
published). Not modelled: the instruction cache, conflicts of register banks, what a scheduler loses when it changes
the warp.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

from edgemeta_proof.machine_code.execution.atomics import is_poll
from edgemeta_proof.machine_code.execution.cluster import ARRIVE, WAIT
from edgemeta_proof.machine_code.sass import Instruction
from edgemeta_proof.machine_code.timing.caches import Caches
from edgemeta_proof.machine_code.timing.control import Control
from edgemeta_proof.machine_code.timing.gates import NEVER, Gates
from edgemeta_proof.machine_code.timing.generations import GLOBAL, SHARED, Generation
from edgemeta_proof.machine_code.timing.trace import Access, Block, Warp

SCHEDULERS = 4


@dataclass(frozen=True, slots=True)
class Timed:
    """What the simulation needs of an instruction.

    occupied, result: clocks of its unit, and to its result. kind: "shared" or "global" memory, "BAR", "fence" for
    all blocks, "wait" at the cluster's barrier, or "". is_arrival: an atomic operation, with which a block arrives
    where all blocks wait, or the arrival of a warp at the cluster's barrier; is_poll: a load with which a block waits.
    empties: the L1 cache. pending: of DEPBAR, a scoreboard and how many of its instructions may be unfinished.
    """

    control: Control
    unit: str
    occupied: float
    result: int
    kind: str
    is_load: bool
    is_cached: bool
    pending: tuple[int, int] | None
    is_arrival: bool = False
    is_poll: bool = False
    empties: bool = False


def timed(instruction: Instruction, control: Control, generation: Generation) -> Timed:
    """The costs of an instruction on a generation."""
    base = instruction.base
    unit = generation.unit(base)
    pending = None
    if base == "DEPBAR" and "LE" in instruction.modifiers:
        pending = int(instruction.operands[0].removeprefix("SB")), int(instruction.operands[1], 16)
    return Timed(
        control=control,
        unit=unit,
        occupied=generation.occupied.get(unit, 1),
        result=generation.result.get(base, generation.latency),
        kind=_kind(instruction),
        is_load=base in ("LDS", "LDG", "LD", "LDSM"),
        is_cached=generation.caches_all or bool({"CI", "CONSTANT"} & set(instruction.modifiers)),
        pending=pending,
        is_arrival=base in ("ATOM", "ATOMG", ARRIVE),
        is_poll=is_poll(instruction),
        empties=bool({"IVALL", "IVALLD"} & set(instruction.modifiers)),
    )


def _kind(instruction: Instruction) -> str:
    base = instruction.base
    if base in SHARED or base in GLOBAL:
        return "shared" if base in SHARED else "global"
    if base == "MEMBAR":
        return "" if "CTA" in instruction.modifiers else "fence"
    return {"BAR": "BAR", WAIT: "wait"}.get(base, "")


@dataclass(slots=True)
class _Warp:
    """A warp on its way: place in its stream, and the clocks at which its scoreboards are released.

    arrived: how often where all blocks wait.
    """

    stream: Warp
    scheduler: int
    block: int
    ready: float
    index: int
    segment: int = 0
    polls_again: bool = False
    arrived: int = 0
    scoreboards: tuple[list[float], ...] = field(default_factory=lambda: tuple([] for _ in range(6)))


@dataclass(frozen=True)
class Run:
    """Result of a simulation, in clocks. starts: when each block began. end: when everything had ended."""

    starts: tuple[float, ...]
    end: float
    issued: int


class Multiprocessor:
    """One multiprocessor with up to `resident` blocks at a time."""

    def __init__(
        self,
        instructions: Sequence[Timed],
        generation: Generation,
        caches: Caches,
        resident: int,
        gates: Gates | None = None,
    ) -> None:
        """gates: of blocks that wait for each other, also on other multiprocessors."""
        self._instructions = instructions
        self._generation = generation
        self._resident = resident
        self._caches = caches
        self._gates = gates or Gates(1)
        self._queues: list[list[tuple[float, int, _Warp]]] = [[] for _ in range(SCHEDULERS)]
        self._free = [0.0] * SCHEDULERS
        self._units: list[dict[str, float]] = [{} for _ in range(SCHEDULERS)]
        self._shared_free = 0.0
        self._order = 0
        self._issued = 0
        self._end = 0.0

    def run(self, blocks: Sequence[Block]) -> Run:
        """Run blocks in their order; the next one begins when one has ended."""
        self.begin(blocks)
        while self.step():
            pass
        return self.result

    def begin(self, blocks: Sequence[Block]) -> None:
        """Let the first blocks begin; `step` does the rest."""
        self._blocks = blocks
        self._starts = [0.0] * len(blocks)
        self._slots = [0] * len(blocks)
        self._alive = [len(block) for block in blocks]
        self._waiting: list[list[_Warp]] = [[] for _ in blocks]
        self._next = 0
        for slot in range(min(self._resident, len(blocks))):
            self._begin(slot, 0.0)

    def step(self) -> bool:
        """Issue what can issue first; False if everything has ended."""
        times = self._times()
        clock = min(times)
        if clock == NEVER:
            return False
        self._issue(times.index(clock), clock)
        return True

    @property
    def clock(self) -> float:
        """Of the next step, at the earliest; infinite after the end."""
        return min(self._times())

    def _times(self) -> list[float]:
        queues, free = self._queues, self._free
        return [max(free[n], queues[n][0][0]) if queues[n] else NEVER for n in range(SCHEDULERS)]

    @property
    def result(self) -> Run:
        """What has been simulated so far."""
        return Run(tuple(self._starts), self._end, self._issued)

    def _begin(self, slot: int, clock: float) -> None:
        """Give a slot the next block."""
        number, self._next = self._next, self._next + 1
        self._starts[number], self._slots[number] = clock, slot
        block = self._blocks[number]
        for n, stream in enumerate(block):
            self._queue(_Warp(stream, (slot * len(block) + n) % SCHEDULERS, number, clock, stream[0].first))

    def _queue(self, warp: _Warp) -> None:
        """Queue a warp with the clock at which its next instruction may issue, as far as the warp itself goes."""
        each = self._instructions[warp.index]
        ready = warp.ready
        for number in each.control.waits:
            releases = warp.scoreboards[number]
            if releases:
                ready = max(ready, *releases)
                releases.clear()
        if each.pending is not None:
            number, most = each.pending
            unfinished = warp.scoreboards[number]
            if len(unfinished) > most:
                ready = max(ready, *unfinished[: len(unfinished) - most])
                del unfinished[: len(unfinished) - most]
        self._order += 1
        heappush(self._queues[warp.scheduler], (ready, self._order, warp))

    def _issue(self, scheduler: int, clock: float) -> None:
        """Issue the next instruction of a scheduler's first warp, unless its unit is busy."""
        queue = self._queues[scheduler]
        _, order, warp = heappop(queue)
        each = self._instructions[warp.index]
        if each.unit:
            free = self._units[scheduler].get(each.unit, 0.0)
            if free > clock:
                heappush(queue, (free, order, warp))
                return
        self._free[scheduler] = clock + 1
        self._execute(warp, each, clock)

    def _execute(self, warp: _Warp, each: Timed, clock: float) -> None:
        control = each.control
        self._issued += 1
        if each.unit:
            self._units[warp.scheduler][each.unit] = clock + each.occupied
        if each.kind in ("shared", "global"):
            read, result = self._access(each, warp.stream[warp.segment].accesses.get(warp.index), clock)
            self._end = max(self._end, result)
        else:
            read, result = clock + each.occupied, clock + each.result
        if control.write_barrier is not None:
            warp.scoreboards[control.write_barrier].append(result)
        if control.read_barrier is not None:
            warp.scoreboards[control.read_barrier].append(read)
        warp.ready = clock + control.stall
        if each.empties:
            self._caches.empty()
        if each.kind == "fence":
            warp.ready = max(warp.ready, self._caches.fence(clock))
        if each.is_arrival:
            warp.arrived += 1
            self._gates.arrive(clock)
        elif each.is_poll:
            warp.polls_again = not self._gates.are_passed(warp.arrived)
        if not self._advance(warp):
            self._finish(warp, max(warp.ready, clock + 1))
        elif each.kind == "BAR":
            self._waiting[warp.block].append(warp)
            self._release(warp.block)
        elif each.kind == "wait":
            self._gates.wait(warp.arrived, partial(self._go_on, warp))
        elif control.stall == 0 and each.kind != "fence" and self._generation.dual_issue:
            self._pair(warp, clock)
        else:
            self._queue(warp)

    def _access(self, each: Timed, access: Access | None, clock: float) -> tuple[float, float]:
        """The clocks at which an access has read its operands and has its result; None: no lane takes part."""
        if access is None:
            return clock + 1, clock + each.result
        if each.kind == "shared":
            begin = max(clock, self._shared_free)
            further = self._generation.again * (access.passes - 1)
            self._shared_free = begin + 1 + further
            return self._shared_free, begin + further + self._generation.shared
        if each.is_arrival:
            return clock + each.occupied, self._caches.atomic(access, clock)
        if each.is_load:
            return clock + each.occupied, self._caches.load(access, clock, each.is_cached)
        end = self._caches.store(access, clock)
        return end, end

    def _advance(self, warp: _Warp) -> bool:
        """Go to the next instruction; False at the end."""
        warp.index += 1
        if warp.index < warp.stream[warp.segment].end:
            return True
        if warp.polls_again:
            warp.polls_again = False
            warp.index = warp.stream[warp.segment].first
            return True
        warp.segment += 1
        if warp.segment == len(warp.stream):
            return False
        warp.index = warp.stream[warp.segment].first
        return True

    def _pair(self, warp: _Warp, clock: float) -> None:
        """Issue the second instruction of a pair in the same clock; if it cannot, it issues alone."""
        each = self._instructions[warp.index]
        waits = any(release > clock for number in each.control.waits for release in warp.scoreboards[number])
        if waits or each.pending is not None or self._units[warp.scheduler].get(each.unit, 0.0) > clock:
            self._queue(warp)
            return
        for number in each.control.waits:
            warp.scoreboards[number].clear()
        self._execute(warp, each, clock)

    def _go_on(self, warp: _Warp, opened: float) -> None:
        """Let a warp go on for which the cluster's barrier has opened."""
        warp.ready = max(warp.ready, opened + self._generation.cluster)
        self._queue(warp)

    def _release(self, block: int) -> None:
        """Let the warps at a barrier go on if all of the block are there that have not ended."""
        waiting = self._waiting[block]
        if waiting and len(waiting) == self._alive[block]:
            clock = max(each.ready for each in waiting)
            self._waiting[block] = []
            for each in waiting:
                each.ready = clock
                self._queue(each)

    def _finish(self, warp: _Warp, clock: float) -> None:
        self._end = max(self._end, clock)
        self._alive[warp.block] -= 1
        if self._alive[warp.block]:
            self._release(warp.block)
        elif self._next < len(self._blocks):
            self._begin(self._slots[warp.block], clock)
