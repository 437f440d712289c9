"""A network as one launch of a cluster: its machine code gives the reference's integers; wrong barriers are noticed.

In the orders `forward` and `reverse` one block goes on as far as the barrier lets it before the next one starts.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model import reference
from edgemeta_proof.machine_code.execution.cluster import ClusterBarrier, check_cluster_fences
from edgemeta_proof.machine_code.execution.cubin import Kernel, read_kernel
from edgemeta_proof.machine_code.execution.machine import Order
from edgemeta_proof.machine_code.execution.plan import Compiles, ExecutedPlan
from edgemeta_proof.machine_code.execution.words import ExecutionError
from edgemeta_proof.machine_code.sass import Code, Instruction
from tests.kernels.cuda.one_launch.networks import witness
from tests.proof.machine_code.execution.mutants import GpuMutant, MutatedCompiler

pytestmark = pytest.mark.usefixtures("disassembler")

CASE, PLAN = witness("cluster")
ORDERS: tuple[Order, ...] = ("together", "forward", "reverse")
ARRIVAL = 'asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");'
WAITING = 'asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");'


def mismatches(compiler: Compiles, order: Order, plan: LaunchPlan = PLAN) -> int:
    batch = np.concatenate([batch for _, batch in CASE.batches()])[:4]
    assert len(batch) == PLAN.launches[0].grid[0], "every block has work in every phase"
    found = ExecutedPlan(plan, compiler, order).run(batch)
    return sum(
        int(np.count_nonzero(f.reshape(e.shape) != e))
        for f, e in zip(found, reference.run(CASE.model, batch), strict=True)
    )


def compiled(compiler: Compiler, plan: LaunchPlan = PLAN) -> Kernel:
    (source,) = plan.sources
    return read_kernel(compiler.compile(source, plan.architecture), source.entry)


def halved() -> LaunchPlan:
    """The same blocks as two clusters."""
    (launch,) = PLAN.launches
    text = launch.source.text.replace("__cluster_dims__(NETWORK_BLOCKS,", "__cluster_dims__(NETWORK_BLOCKS / 2,")
    assert text != launch.source.text
    return replace(PLAN, launches=(replace(launch, source=replace(launch.source, text=text)),))


def test_equal_to_the_reference_in_every_order(compiler: Compiler) -> None:
    assert [mismatches(compiler, order) for order in ORDERS] == [0, 0, 0]


def test_the_cubin_says_how_many_blocks_a_cluster_has(compiler: Compiler) -> None:
    assert compiled(compiler).cluster == PLAN.launches[0].grid[0] == 4
    assert compiled(compiler, halved()).cluster == 2
    assert compiled(compiler, witness("tensor")[1]).cluster == 1


def test_two_clusters_do_not_wait_for_each_other(compiler: Compiler) -> None:
    assert mismatches(compiler, "forward", halved()) > 0


MUTANTS = {
    "no barrier": ((ARRIVAL, "__syncthreads();"), (WAITING, ""), None),
    "nobody waits": ((WAITING, ""), None, "only memory accesses after the wait"),
    "nobody arrives": ((ARRIVAL, ""), None, "waits at the cluster's barrier where it has not arrived"),
    "nothing is published": (("arrive.release", "arrive.relaxed"), None, "no fence for other blocks before it"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_barrier_that_does_not_hold_is_noticed(name: str, compiler: Compiler, tmp_path: Path) -> None:
    first, second, message = MUTANTS[name]
    text = ARRIVAL + "\n  " + WAITING
    after = text.replace(*first).replace(*(second or ("", "")))
    mutated = MutatedCompiler(compiler, GpuMutant("cluster", "one_launch/cluster.cuh", text, after), tmp_path)
    if message is None:
        assert mismatches(mutated, "forward") > 0
        return
    with pytest.raises(ExecutionError, match=message):
        mismatches(mutated, "forward")


def lines(*opcodes: str) -> Code:
    return Code(tuple(Instruction(16 * n, None, False, opcode, ()) for n, opcode in enumerate(opcodes)), {})


GOOD = ("STG.E", "MEMBAR.ALL.GPU", "ERRBAR", "UCGABAR_ARV", "IADD3", "UCGABAR_WAIT", "CCTL.IVALL", "LDG.E", "EXIT")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (tuple(each for each in GOOD if not each.startswith("MEMBAR")), "no fence for other blocks"),
        (("MEMBAR.ALL.GPU", "STG.E", *GOOD[2:]), "no fence for other blocks"),
        (("STG.E", "MEMBAR.ALL.CTA", *GOOD[2:]), "no fence for other blocks"),
        (tuple(each for each in GOOD if not each.startswith("CCTL")), "the L1 cache is not emptied"),
        ((*GOOD[:6], "LDG.E", "CCTL.IVALL", "EXIT"), "the L1 cache is not emptied"),
        (("MEMBAR.ALL.GPU", "UCGABAR_ARV", "LDS", *GOOD[5:]), "only memory accesses after the wait"),
    ],
)
def test_what_orders_memory_must_be_around_the_barrier(code: Sequence[str], message: str) -> None:
    check_cluster_fences(lines(*GOOD))
    with pytest.raises(ExecutionError, match=message):
        check_cluster_fences(lines(*code))


def test_a_jump_past_a_fence_is_noticed() -> None:
    good = lines(*GOOD)
    for target, message in ((3, "no fence for other blocks"), (6, "the L1 cache is not emptied")):
        jump = Instruction(0, "P0", False, "BRA", (), target)
        with pytest.raises(ExecutionError, match=message):
            check_cluster_fences(replace(good, instructions=(*good.instructions, jump)))


def test_a_cluster_opens_when_all_that_have_not_ended_have_arrived() -> None:
    barrier, nobody = ClusterBarrier(np.array([0, 0, 1, 1])), np.zeros(4, np.bool_)
    everyone, first = ~nobody, np.array([True, False, True, True])
    barrier.arrive(first)
    barrier.wait(first)
    assert barrier.opened(first, nobody).tolist() == [False, False, True, True]
    assert barrier.opened(first, ~first).tolist() == first.tolist(), "the second has ended"
    with pytest.raises(ExecutionError, match="waits at the cluster's barrier where it has not arrived"):
        barrier.wait(~first)
    barrier.arrive(~first)
    barrier.wait(~first)
    assert barrier.opened(everyone, nobody).all()
    barrier.arrive(first)
    with pytest.raises(ExecutionError, match="arrives twice"):
        barrier.arrive(everyone)


def test_a_grid_that_is_no_number_of_clusters_is_refused(compiler: Compiler) -> None:
    (launch,) = PLAN.launches
    odd = replace(PLAN, launches=(replace(launch, grid=(3, 1)),))
    with pytest.raises(ExecutionError, match="a grid of 3 blocks is no number of clusters of 4"):
        ExecutedPlan(odd, compiler).run(next(iter(CASE.batches()))[1][:1])
