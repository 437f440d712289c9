"""Small kernels on a simulated Maxwell multiprocessor, with their clocks computed by hand."""

from dataclasses import replace

import pytest

from edgemeta_proof.machine_code.sass import Instruction
from edgemeta_proof.machine_code.timing.caches import Bandwidth, Caches
from edgemeta_proof.machine_code.timing.control import Control, decoded
from edgemeta_proof.machine_code.timing.generations import MAXWELL
from edgemeta_proof.machine_code.timing.multiprocessor import Multiprocessor, Run, timed
from edgemeta_proof.machine_code.timing.trace import Access, Block, Segment

PLAIN = Control(stall=1, yields=False, write_barrier=None, read_barrier=None, waits=())
WARM = Bandwidth(l2=32.0, memory=32.0, warm=True)

Line = tuple[str, Control]


def run(
    lines: list[Line], accesses: dict[int, Access] | None = None, warps: int = 1, blocks: int = 1, resident: int = 1
) -> Run:
    """Simulate blocks of warps that all run the same instructions once."""
    code = [Instruction(8 * n, None, False, opcode, ("SB0", "0x1")) for n, (opcode, _) in enumerate(lines)]
    instructions = [timed(each, control, MAXWELL) for each, (_, control) in zip(code, lines, strict=True)]
    ends = [n + 1 for n, (opcode, _) in enumerate(lines) if opcode.startswith("BAR") or n + 1 == len(lines)]
    segments = [Segment(first, end, accesses or {}) for first, end in zip([0, *ends[:-1]], ends, strict=True)]
    block: Block = [list(segments) for _ in range(warps)]
    return Multiprocessor(instructions, MAXWELL, Caches(MAXWELL, WARM), resident).run([block] * blocks)


def stalled(stall: int) -> Control:
    return replace(PLAIN, stall=stall)


def test_a_dependent_chain_takes_its_stalls() -> None:
    """Ten additions, each 6 clocks after the one before; the last instruction issues at clock 60."""
    result = run([("IADD", stalled(6))] * 10 + [("EXIT", PLAIN)])
    assert (result.end, result.issued) == (61, 11)


def test_warps_of_a_scheduler_fill_each_others_stalls() -> None:
    """Warps 0, 4, 8 and 12 share a scheduler: four chains with stalls of 6 still fit into 6 clocks a step."""
    chain = [("IADD", stalled(6))] * 10 + [("EXIT", PLAIN)]
    assert run(chain, warps=16).end == 61 + 3
    assert run(chain, warps=4).end == 61


def test_more_warps_than_stalls_are_limited_by_the_issue() -> None:
    """Twelve warps on each scheduler: one instruction per clock, 12 * 11 of them."""
    assert run([("IADD", stalled(6))] * 10 + [("EXIT", PLAIN)], warps=48).end == 12 * 11


def test_two_instructions_issue_in_one_clock_after_a_stall_of_0() -> None:
    pairs: list[Line] = [("IADD", stalled(0)), ("LDS", stalled(1))] * 5
    assert run([*pairs, ("EXIT", PLAIN)]).end < run([("IADD", PLAIN), ("LDS", PLAIN)] * 5 + [("EXIT", PLAIN)]).end
    assert run([("IADD", stalled(0)), ("XMAD", stalled(1))] * 5 + [("EXIT", PLAIN)]).end == 6
    assert run([("IADD", stalled(1)), ("XMAD", stalled(1))] * 5 + [("EXIT", PLAIN)]).end == 11


@pytest.mark.parametrize(("opcode", "clocks"), [("XMAD", 1), ("SHL", 2), ("I2F", 4)])
def test_units_of_half_and_of_a_quarter_rate(opcode: str, clocks: int) -> None:
    """Many warps of one scheduler; the last instruction's warp then ends with EXIT."""
    assert run([(opcode, stalled(1)), ("EXIT", PLAIN)], warps=32).end == pytest.approx(8 * max(clocks, 2), abs=clocks)


def test_an_instruction_waits_for_the_scoreboard_of_a_load_from_shared_memory() -> None:
    """Issued at clock 0, data at 23, the waiting instruction then, EXIT one clock later."""
    lines: list[Line] = [
        ("LDS", replace(PLAIN, write_barrier=0)),
        ("IADD", replace(PLAIN, waits=(0,))),
        ("EXIT", PLAIN),
    ]
    assert run(lines, {0: Access(passes=1)}).end == 23 + 2
    assert run(lines, {0: Access(passes=4)}).end == 23 + 3 * 2 + 2  # three more passes, two clocks each


def test_depbar_waits_until_few_enough_are_unfinished() -> None:
    """Loads at clocks 0, 4 and 8 (their unit keeps 4 clocks): DEPBAR.LE SB0, 1 waits for the second, 4 + 23."""
    load = ("LDS", replace(PLAIN, write_barrier=0))
    lines: list[Line] = [load, load, load, ("DEPBAR.LE", PLAIN), ("EXIT", PLAIN)]
    assert run(lines, {n: Access(passes=1) for n in range(3)}).end == 8 + 23
    wait: list[Line] = [load, load, load, ("IADD", replace(PLAIN, waits=(0,))), ("EXIT", PLAIN)]
    assert run(wait, {n: Access(passes=1) for n in range(3)}).end == 8 + 23 + 2
    after: list[Line] = [*lines[:4], *[("IADD", stalled(6))] * 2, ("EXIT", PLAIN)]
    assert run(after, {n: Access(passes=1) for n in range(3)}).end == 4 + 23 + 1 + 2 * 6 + 1


def test_a_load_that_hits_in_the_l1_cache_is_faster() -> None:
    """82 clocks instead of 207; a look-up of a quad takes half a clock, a sector one at the port of the L2 cache."""
    first, second = replace(PLAIN, write_barrier=0), replace(PLAIN, write_barrier=1, waits=(0,))
    lines: list[Line] = [("LDG.E.CI", first), ("LDG.E.CI", second), ("IADD", replace(PLAIN, waits=(1,)))]
    access = Access(look_ups=8, sectors=(0, 1, 2, 3))
    cached = run([*lines, ("EXIT", PLAIN)], {0: access, 1: access})
    assert cached.end == (4 + 207) + (4 + 82) + 2
    plain = [(opcode.removesuffix(".CI"), control) for opcode, control in lines]
    assert run([*plain, ("EXIT", PLAIN)], {0: access, 1: access}).end == 2 * (4 + 207) + 2


@pytest.mark.parametrize(
    ("opcode", "empties"), [("CCTL.IVALL", True), ("MEMBAR.GL.IVALLD", True), ("MEMBAR.GL", False)]
)
def test_what_empties_the_l1_cache(opcode: str, empties: bool) -> None:
    """A load, the instruction, and the same load: from the L1 cache, or from the L2 cache again."""
    first, second = replace(PLAIN, write_barrier=0), replace(PLAIN, write_barrier=1)
    lines: list[Line] = [("LDG.E.CI", first), (opcode, replace(PLAIN, waits=(0,))), ("LDG.E.CI", second)]
    word = Access(look_ups=1, sectors=(7,))
    end = run([*lines, ("IADD", replace(PLAIN, waits=(1,))), ("EXIT", PLAIN)], {0: word, 2: word}).end
    fence = MAXWELL.l2 if opcode.startswith("MEMBAR") else 1
    assert end == pytest.approx(MAXWELL.l2 + fence + (MAXWELL.l2 if empties else MAXWELL.l1), abs=6)


def test_warps_wait_at_a_barrier_for_the_last() -> None:
    """Warps 0 and 4 share a scheduler: the second reaches the barrier one clock after the first."""
    lines: list[Line] = [("BAR.SYNC", stalled(5)), ("IADD", PLAIN), ("EXIT", PLAIN)]
    assert run(lines, warps=1).end == 7
    assert run(lines, warps=8).end == 1 + 5 + 4


def test_blocks_wait_for_a_free_place() -> None:
    chain = [("IADD", stalled(6))] * 10 + [("EXIT", PLAIN)]
    assert run(chain, blocks=3, resident=1).starts == (0, 61, 122)
    assert run(chain, blocks=3, resident=2).starts[:2] == (0, 0)


def test_fields_of_control_information() -> None:
    """maxas prints 0x1f / --:-:-:Y:f for 0x7ef; here stall 5, barriers 2 and 3, waiting for 0 and 5."""
    assert decoded(0x7EF) == Control(15, True, None, None, ())
    bits = 5 | 1 << 4 | 2 << 5 | 3 << 8 | 0b100001 << 11
    assert decoded(bits) == Control(5, False, 2, 3, (0, 5))
