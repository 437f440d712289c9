"""Predicted time: the formula by hand, and the choice by rule follows it."""

from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.direct.tiles import Geometry
from edgemeta.kernels.cuda.direct.tiles import tiles as direct_tiles
from edgemeta.kernels.cuda.direct.tiles import work as direct_work
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.plan.prediction import Phase, Work, busy_clocks, rounds
from edgemeta.kernels.cuda.winograd.tile import Tile, tiles
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.winograd import F4
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.cost import Cost, LaunchCost, cost

NANO = ARCHITECTURES["sm_53"]
PHASE = Phase(instructions=76_000, longest=1000)
WORK = Work(blocks=8, threads=256, registers=64, shared_bytes=0, phases=(PHASE,))


@pytest.fixture(scope="module")
def model() -> Model:
    return load(find("resnet8-cifar10"))


@pytest.fixture(scope="module")
def chosen(model: Model, compiler: Compiler) -> Cost:
    return cost(lower(model, NANO), model, compiler)


@pytest.mark.parametrize(
    ("changes", "architecture", "expected"),
    [
        ({}, "sm_53", 2),  # 65,536 registers are those of four blocks of 8 warps
        ({"registers": 65}, "sm_53", 3),  # given in units of 256: as 72
        ({"shared_bytes": 20 << 10}, "sm_53", 3),  # three of them in 64 KiB
        ({"shared_bytes": 20 << 10}, "sm_62", 2),  # on two multiprocessors
        ({"registers": 16}, "sm_53", 1),  # 64 warps
        ({"blocks": 0}, "sm_53", 0),
        ({"threads": 1024, "registers": 32}, "sm_87", 1),  # 48 warps on each of 16: one block
        ({"threads": 32, "blocks": 33, "registers": 16}, "sm_53", 2),  # 32 blocks
    ],
)
def test_rounds(changes: dict[str, int], architecture: str, expected: int) -> None:
    assert rounds(replace(WORK, **changes), ARCHITECTURES[architecture]) == expected


def clocks(architecture: str = "sm_53", blocks: int = 8, **changes: float) -> float:
    """Of one phase like PHASE."""
    return busy_clocks(replace(WORK, blocks=blocks, phases=(replace(PHASE, **changes),)), ARCHITECTURES[architecture])


def test_a_full_device_is_limited_by_its_instructions_and_an_empty_one_by_its_longest_warp() -> None:
    assert clocks(longest=1) == pytest.approx(76_000 / 3.8)
    assert clocks(instructions=1) == pytest.approx(2 * 1000 * 3)
    assert clocks(instructions=1, blocks=6) == pytest.approx(1.5 * 1000 * 3)  # the second round is half as long
    assert clocks(loaded=3_200_000) == 3_200_000 / 32
    assert clocks("sm_62", longest=1) == pytest.approx(76_000 / 7.6)


def test_few_warps_do_not_compute_while_others_load() -> None:
    together = clocks(loaded=640_000)
    assert together == 20_000 == 640_000 / 32 == pytest.approx(76_000 / 3.8)
    lone = replace(WORK, blocks=1, phases=(replace(PHASE, loaded=640_000),))
    assert busy_clocks(replace(lone, threads=128), NANO) == pytest.approx(8 / 4 * 40_000)


def test_each_phase_has_its_own_limit_and_waits_for_its_first_loads() -> None:
    short, long = Phase(instructions=76_000, longest=1), Phase(instructions=1, longest=1000)
    assert busy_clocks(replace(WORK, phases=(short, long)), NANO) == pytest.approx(20_000 + 6000)
    assert clocks(longest=1, waits=3) == pytest.approx(20_000 + 2 * 3 * 207)


def test_the_first_tile_has_the_shortest_predicted_time_not_the_fewest_instructions() -> None:
    """ResNet-8's layers of 32x32x16: the cut of the fewest instructions needs four rounds, its warps alone in each."""
    first, *others = tiles(F4, 0, 64, 16, 16, False, NANO)
    assert first[0] == min(clocks for clocks, _ in (first, *others))
    fewest = min((tile for _, tile in (first, *others)), key=lambda tile: instructions(tile))
    assert fewest != first[1]
    assert instructions(fewest) < instructions(first[1])


def counted(each: LaunchCost) -> Work:
    """The work of a compiled launch."""
    shared_bytes = each.resources.shared_bytes + each.launch.shared_bytes
    blocks, threads = prod(each.launch.grid), prod(each.launch.block)
    phase = Phase(each.run.warp_instructions, each.run.longest)
    return Work(blocks, threads, each.resources.registers, shared_bytes, (phase,))


def instructions(tile: Tile) -> float:
    return tile.work(64, 16, 16, adds=False).instructions


def test_direct_tiles_are_sorted_by_predicted_time() -> None:
    geometry = Geometry(16, 16, 32, (3, 3), (1, 1), 32, 2, 16, beside=False)
    clocks = [busy_clocks(direct_work(geometry, tile), NANO) for tile in direct_tiles(geometry, NANO)]
    assert all(one <= other for one, other in pairwise(clocks))


@pytest.mark.gate("10 s: every kernel of a network is compiled and counted")
def test_estimates_are_near_the_counts(chosen: Cost) -> None:
    """Of the tiles that are chosen: instructions and the longest warp within 15 %."""
    known = [each for each in chosen.launches if each.launch.source.path == "winograd/kernel.cu"]
    assert len(known) == 5
    for each, (count, channels, outputs, adds) in zip(
        known,
        (
            (64, 16, 16, False),
            (64, 16, 16, True),
            (16, 32, 32, True),
            (16, 32, 64, False),
            (4, 64, 64, True),
        ),
        strict=True,
    ):
        work = Tile(**each.launch.tile).work(count, channels, outputs, adds)
        assert work.instructions == pytest.approx(each.run.warp_instructions, rel=0.15), each.launch.layers
        assert work.longest == pytest.approx(each.run.longest, rel=0.15), each.launch.layers
        assert rounds(work, NANO) == rounds(counted(each), NANO), each.launch.layers


@pytest.mark.gate("8 s of processor time: the next kernel of every layer is compiled and its machine code simulated")
def test_no_candidate_is_predicted_to_be_much_faster_than_the_choice_by_rule(
    model: Model, compiler: Compiler, chosen: Cost
) -> None:
    """Simulated from the machine code of each layer's next candidate: at most 20 %. Tuning on a device measures."""
    counts = candidate_counts(model, NANO)
    by_rule = {each.launch.layers[0]: each.busy_us or 0.0 for each in chosen.launches}
    plan = lower(model, NANO, {layer: 1 for layer, count in counts.items() if count > 1})
    others = tuple(each for each in plan.launches if counts[each.layers[0]] > 1)
    for each in cost(LaunchPlan(NANO, others, plan.input, plan.outputs), model, compiler).launches:
        assert each.busy_us is not None
        assert each.busy_us > 0.8 * by_rule[each.launch.layers[0]], dict(each.launch.tile)


@pytest.mark.gate("10 s: every kernel of a network is compiled and simulated")
def test_resnet8_is_predicted_to_be_busy_for_less_than_210_us(chosen: Cost) -> None:
    """With the three launches of its rule of rejection."""
    assert 0 < chosen.predicted_us["busy"] < 210
