"""What the benchmark of a network's one launch compares, and what its bound for activations rests on."""

import pytest

from benchmarks.cuda_one_launch import activation_sectors, alive_bytes, as_one_block, free, without_room
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.timing.trace import Access, Segment


def test_without_room_nothing_is_copied_and_the_blocks_are_the_same() -> None:
    plan = lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_90"])
    for form in (one_launch, one_cluster):
        (copied,), (plain,) = form(plan).launches, form(without_room(plan)).launches
        assert (copied.grid, copied.block, copied.joins) == (plain.grid, plain.block, plain.joins)
        assert "copy_ahead<" in copied.source.text
        assert "copy_ahead<" not in plain.source.text
        assert plain.shared_bytes == max(launch.shared_bytes for launch in plan.launches)


@pytest.fixture(scope="module")
def plan() -> LaunchPlan:
    return lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_53"])


def test_most_is_alive_while_the_first_block_adds_its_input(plan: LaunchPlan) -> None:
    """Inputs of the two convolutions and their sum, each with a ring."""
    assert alive_bytes(plan) == 3 * 34 * 34 * 16


def test_one_block_waits_for_nobody_and_may_use_all_registers(plan: LaunchPlan) -> None:
    launch = one_launch(plan).launches[0]
    alone = as_one_block(launch)
    assert alone.grid == (1, 1)
    assert "#define NETWORK_BLOCKS 1\n" in alone.source.text
    assert "__launch_bounds__(NETWORK_THREADS, 1)" in alone.source.text
    assert launch.source.text.count("\n") == alone.source.text.count("\n")


def test_only_accesses_to_tensors_are_free(plan: LaunchPlan) -> None:
    launch = one_launch(plan).launches[0]
    sectors = activation_sectors(launch, plan.input)
    assert len(sectors) == len([each for each in launch.arguments if isinstance(each, Buffer)])
    tensor, other, shared = Access(0, 4, (sectors[0][0],)), Access(0, 4, (sectors[-1][-1] + 1000,)), Access(3)
    ((segment,),) = free([[Segment(5, 9, {5: tensor, 6: other, 7: shared})]], sectors)
    assert segment == Segment(5, 9, {5: Access(), 6: other, 7: shared})
