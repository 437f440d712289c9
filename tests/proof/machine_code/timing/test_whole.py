"""Blocks that wait for each other, simulated: small kernels by hand, and networks as one launch."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.cost import cost
from edgemeta_proof.machine_code.devices import DEVICES
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from edgemeta_proof.machine_code.sass import Instruction
from edgemeta_proof.machine_code.timing.caches import Bandwidth
from edgemeta_proof.machine_code.timing.control import Control
from edgemeta_proof.machine_code.timing.generations import HOPPER, MAXWELL, Generation
from edgemeta_proof.machine_code.timing.multiprocessor import Timed, timed
from edgemeta_proof.machine_code.timing.trace import Access, Block, Segment
from edgemeta_proof.machine_code.timing.whole import simulate_whole, trace_whole
from tests.kernels.cuda.one_launch.networks import MULTIPROCESSORS, witness

PLAIN = Control(stall=1, yields=False, write_barrier=None, read_barrier=None, waits=())
WARM = Bandwidth(l2=32.0, memory=32.0, warm=True)
WORD = Access(look_ups=1, sectors=(7,))

ARRIVAL, POLL = 11, 12
LINES: Sequence[tuple[str, Control]] = [
    *[("IADD", replace(PLAIN, stall=10))] * 10,
    ("MEMBAR.GL", PLAIN),
    ("ATOM.E.ADD", replace(PLAIN, write_barrier=0)),
    ("LDG.E.CV", replace(PLAIN, write_barrier=0, waits=(0,))),
    ("BRA", replace(PLAIN, waits=(0,))),
    ("EXIT", PLAIN),
]
"""Ten additions of ten clocks each, then a barrier of all blocks."""


CLUSTER: Sequence[tuple[str, Control]] = [
    *[("IADD", replace(PLAIN, stall=10))] * 10,
    *((opcode, PLAIN) for opcode in ("MEMBAR.ALL.GPU", "UCGABAR_ARV", "UCGABAR_WAIT", "CCTL.IVALL", "EXIT")),
]
"""The same with the barrier of a cluster."""


def kernel(lines: Sequence[tuple[str, Control]] = LINES, generation: Generation = MAXWELL) -> list[Timed]:
    code = [Instruction(8 * n, None, False, opcode, ()) for n, (opcode, _) in enumerate(lines)]
    return [timed(each, control, generation) for each, (_, control) in zip(code, lines, strict=True)]


def block(additions: int, turns: int = 1) -> Block:
    """One warp: up to ten additions, then the barrier, `turns` times."""
    turn = [
        Segment(10 - additions, 12, {ARRIVAL: WORD}),
        Segment(12, 14, {POLL: WORD}),
    ]
    return [[*turn * turns, Segment(14, 15, {})]]


def ends(blocks: Sequence[Block], multiprocessors: int = 1) -> tuple[float, ...]:
    return simulate_whole(blocks, kernel(), MAXWELL, WARM, multiprocessors)


def test_a_lone_block_pays_the_fence_the_arrival_and_one_poll() -> None:
    """Additions until clock 100, the fence 207, then the atomic operation; its result and that of a poll, 207 each."""
    arrived, end = ends([block(10)])
    assert arrived == 100 + MAXWELL.l2
    assert end == pytest.approx(arrived + 2 * MAXWELL.l2 + 4, abs=4)


def test_the_barrier_opens_with_the_last_arrival() -> None:
    """The others poll until then: what they do before does not matter, and they see it after one more poll at most."""
    (late, end), (early, alone) = ends([block(0), block(10), block(3)]), ends([block(10)])
    assert late == pytest.approx(early, abs=2)
    assert alone - 4 <= end <= alone + MAXWELL.l2 + 10


def test_blocks_on_several_multiprocessors_wait_for_each_other() -> None:
    for multiprocessors in (2, 3, 8):
        arrived, end = ends([block(0), block(10), block(3)], multiprocessors)
        assert arrived == 100 + MAXWELL.l2
        assert arrived + MAXWELL.l2 < end


def test_each_turn_of_the_barrier_costs_the_same() -> None:
    *arrived, _ = ends([block(10, turns=4), block(10, turns=4)], 2)
    assert len(arrived) == 4
    steps = [after - before for before, after in pairwise(arrived)]
    assert steps == [pytest.approx(100 + 3 * MAXWELL.l2 + 4, abs=8)] * 3


def in_a_cluster(*additions: int, turns: int = 1, warps: int = 1, multiprocessors: int = 1) -> tuple[float, ...]:
    """Ends of blocks whose last warp makes these additions before the barrier, and the others none."""
    idle, end = [Segment(10, 13, {}), Segment(13, 14, {})], Segment(14, 15, {})
    blocks = [
        [*[[*idle * turns, end]] * (warps - 1), [*[Segment(10 - n, 13, {}), idle[1]] * turns, end]] for n in additions
    ]
    return simulate_whole(blocks, kernel(CLUSTER, HOPPER), HOPPER, WARM, multiprocessors)


@pytest.mark.parametrize("multiprocessors", [1, 2, 3])
@pytest.mark.parametrize("warps", [1, 3])
def test_the_barrier_of_a_cluster_opens_for_all_after_the_last_warp(multiprocessors: int, warps: int) -> None:
    """Additions until clock 100, the fence, the arrival; from there on it is the same time for all."""
    arrived, end = in_a_cluster(0, 10, 3, warps=warps, multiprocessors=multiprocessors)
    assert arrived == pytest.approx(100 + HOPPER.l2, abs=4)
    assert end == pytest.approx(arrived + HOPPER.cluster, abs=12)


def test_each_turn_of_a_cluster_costs_the_same() -> None:
    *arrived, _ = in_a_cluster(10, 0, turns=4, multiprocessors=2)
    steps = [after - before for before, after in pairwise(arrived)]
    assert steps == [pytest.approx(100 + HOPPER.l2 + HOPPER.cluster, abs=8)] * 3


@pytest.mark.gate("8 s: a network is compiled as one kernel and executed")
@pytest.mark.usefixtures("disassembler")
def test_the_polls_of_an_execution_are_not_in_its_trace(compiler: Compiler) -> None:
    """Whatever the order of the blocks: the counts are those of the executed plan, which leaves waiting out, too."""
    case, plan = witness("winograd")
    (launch,) = plan.launches
    program = Program(read_kernel(compiler.compile(launch.source, plan.architecture), launch.source.entry))
    whole = trace_whole(program, launch, 4)
    executed = ExecutedPlan(plan, compiler, "forward")
    executed.run(next(iter(case.batches()))[1][:1])
    assert whole.counts.warp_instructions == executed.warp_instructions
    polls = [n for n, each in enumerate(program.instructions) if each.opcode == "LDG.E.CV"]
    for each in whole.blocks:
        assert sum(n in segment.accesses for warp in each for segment in warp for n in polls) == len(polls)


@pytest.mark.usefixtures("disassembler")
@pytest.mark.gate("12 s: a network is compiled twice, executed and simulated")
def test_phases_take_about_the_time_of_their_launches(compiler: Compiler) -> None:
    """The same work on as many multiprocessors: a barrier costs about 1 us, and narrow layers have idle warps."""
    case, plan = witness("winograd")
    device = replace(plan.architecture, multiprocessors=MULTIPROCESSORS)
    alone = cost(replace(plan, architecture=device, launches=plan.launches[0].joins), case.model, compiler)
    joined = cost(replace(plan, architecture=device), case.model, compiler)
    (launch,) = joined.launches
    busy = alone.predicted_us["busy"]
    assert 0.8 * busy < joined.predicted_us["busy"] < 2 * busy + len(launch.phases_us)
    assert sum(launch.phases_us) == pytest.approx(joined.predicted_us["busy"])
    assert alone.warp_instructions < launch.run.warp_instructions < 1.4 * alone.warp_instructions
    assert launch.run.written_bytes == pytest.approx(sum(each.run.written_bytes for each in alone.launches), rel=0.05)
    assert joined.as_json()["launches"] == 1


@pytest.mark.gate("60 s: a network is compiled as one kernel, executed and simulated")
def test_the_shipped_network_as_one_launch(compiler: Compiler) -> None:
    """The sum of its phases is near that of its launches."""
    model, nano = load(find("resnet8-cifar10")), ARCHITECTURES["sm_53"]
    plan = lower(model, nano)
    alone = cost(plan, model, compiler).predicted_us["busy"]
    joined = cost(one_launch(plan), model, compiler)
    assert 0.8 * alone < joined.predicted_us["busy"] < 1.4 * alone
    assert joined.predicted_us["graph"] == joined.predicted_us["busy"] + DEVICES["sm_53"].launch_us
    assert joined.predicted_us["busy"] < 145
    assert joined.warp_instructions < 300_000
