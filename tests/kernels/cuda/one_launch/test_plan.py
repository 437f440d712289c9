"""Launches joined to one: phases, the shape of the launch, and the proof that its blocks are resident at once."""

from math import prod

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.compile.resources import Resources, violations
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import (
    GRAPH,
    NETWORK,
    ONE_CLUSTER,
    check_resident,
    forms_of,
    in_phases,
    is_cluster,
    one_cluster,
    one_launch,
)
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.conformance.cases import CASES
from tests.kernels.cuda.one_launch.networks import WITNESSES, witness

NANO, H200 = ARCHITECTURES["sm_53"], ARCHITECTURES["sm_90"]


def resources(registers: int) -> Resources:
    return Resources(registers, 0, 0, 0, 0)


def test_phases_of_the_shipped_network() -> None:
    plan = lower(load(find("resnet8-cifar10")), NANO)
    assert [["+".join(launch.layers) for launch in phase] for phase in in_phases(plan)] == [
        ["conv0"],
        ["conv1"],
        ["conv2+add2"],
        ["conv4+conv3"],
        ["conv5+add5"],
        ["conv7+conv6"],
        ["conv8+add8"],
        ["pool+fc", "add2_mean+add2_evidence", "add5_mean+add5_evidence", "add8_mean+add8_evidence"],
    ]


@pytest.mark.parametrize("name", WITNESSES)
def test_no_phase_reads_what_it_writes(name: str) -> None:
    case, architecture, kernels = WITNESSES[name]
    plan = lower(case.model, ARCHITECTURES[architecture], kernels=kernels)
    written = {plan.input}
    for phase in in_phases(plan):
        new: set[Buffer] = set()
        for launch in phase:
            buffers = {each for each in launch.arguments if isinstance(each, Buffer)}
            assert not buffers & new
            new |= buffers - written
        written |= new
    assert written == set(plan.buffers)


def test_the_forms_of_an_architecture() -> None:
    case, _, kernels = WITNESSES["winograd"]

    def forms(architecture: str, multiprocessors: int | None = None) -> list[str]:
        return list(forms_of(lower(case.model, ARCHITECTURES[architecture], kernels=kernels), multiprocessors))

    assert forms("sm_53") == [GRAPH, NETWORK]
    assert forms("sm_90") == [GRAPH, NETWORK, ONE_CLUSTER]
    assert forms("sm_90", multiprocessors=1) == [GRAPH, NETWORK], "a cluster of one block is none"


def test_the_shipped_network_is_one_launch() -> None:
    plan = lower(load(find("resnet8-cifar10")), NANO)
    joined = one_launch(plan)
    (launch,) = joined.launches
    assert launch.is_persistent
    assert launch.grid_of(7) == (*launch.grid, 1)
    assert launch.shared_bytes <= 32 << 10
    assert prod(launch.grid) >= 2, "several blocks are resident"
    assert (joined.input, joined.outputs) == (plan.input, plan.outputs)
    assert set(plan.constants) == set(joined.constants)


def test_blocks_that_are_not_resident_at_once_are_refused() -> None:
    (launch,) = one_launch(lower(load(find("resnet8-cifar10")), NANO)).launches
    check_resident(launch, resources(80), NANO, 1)
    with pytest.raises(UnsupportedError, match="wait for each other, but only 1 of 320 threads, 96 registers"):
        check_resident(launch, resources(96), NANO, 1)


def test_more_blocks_on_more_multiprocessors() -> None:
    plan = lower(load(find("resnet8-cifar10")), NANO)
    blocks = [prod(one_launch(plan, count).launches[0].grid) for count in (1, 2, 100)]
    assert blocks[0] < blocks[1] < blocks[2] == max(sum(prod(e.grid) for e in phase) for phase in in_phases(plan))


def test_a_cluster_has_blocks_for_the_largest_phase_by_powers_of_two() -> None:
    plan = lower(load(find("resnet8-cifar10")), H200)
    (launch,) = one_launch(plan).launches
    (cluster,) = one_cluster(plan).launches
    assert (launch.grid[0], cluster.grid[0]) == (16, 8)
    assert (is_cluster(launch), is_cluster(cluster)) == (False, True)
    assert one_cluster(plan, 5).launches[0].grid[0] == 4, "a device of five multiprocessors"
    _, small = witness("cluster")
    assert max(prod(part.grid) for part in small.launches[0].joins) == 3
    assert small.launches[0].grid[0] == 4


def test_a_cluster_needs_no_counter_and_is_resident_at_once() -> None:
    plan = one_cluster(lower(load(find("resnet8-cifar10")), H200))
    (launch,) = plan.launches
    assert not plan.counters
    assert "__cluster_dims__(NETWORK_BLOCKS, 1, 1) __launch_bounds__(NETWORK_THREADS, 1)" in launch.source.text
    assert "barrier.cuh" not in launch.source.text
    check_resident(launch, resources(162), H200, 8)


def test_a_launch_is_joined_again_as_a_cluster() -> None:
    plan = lower(load(find("resnet8-cifar10")), H200)
    assert one_cluster(one_launch(plan)).sources == one_cluster(plan).sources
    assert one_launch(one_cluster(plan)).sources == one_launch(plan).sources


def test_an_architecture_without_clusters_is_named() -> None:
    with pytest.raises(UnsupportedError, match="sm_53 has no clusters of blocks"):
        one_cluster(lower(load(find("resnet8-cifar10")), NANO))


def test_a_kernel_without_a_form_for_one_launch_is_named() -> None:
    case = next(each for each in CASES if each.name.startswith("max-pool"))
    with pytest.raises(UnsupportedError, match=r"layer '\w+': pool/kernel.cu has no form for a launch of the whole"):
        one_launch(lower(case.model, NANO))


@pytest.mark.gate("30 s: whole networks are compiled as one kernel")
@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper"])
def test_the_compiled_kernel_of_a_shipped_network_is_resident(name: str, compiler: Compiler) -> None:
    (launch,) = one_launch(lower(load(find(name)), NANO)).launches
    compiled = compiler.build(launch.source, NANO).resources
    check_resident(launch, compiled, NANO, 1)
    assert not [each for each in violations(launch, compiled, NANO) if "spill" not in each and "stack" not in each]


@pytest.mark.parametrize("name", list(WITNESSES))
def test_a_small_network_compiles_and_is_resident(name: str, compiler: Compiler) -> None:
    _, plan = witness(name)
    (launch,) = plan.launches
    check_resident(launch, compiler.build(launch.source, plan.architecture).resources, plan.architecture, 2)
