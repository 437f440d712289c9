"""What shared memory and clusters could do for a network's one launch: simulated, nothing is measured.

    python benchmarks/cuda_one_launch.py cluster
    python benchmarks/cuda_one_launch.py activations [--arch sm_53]

cluster: a cluster, its distributed shared memory, and constants copied ahead. Forms: busy microseconds of the shipped
networks as one launch that polls a word and as one of a cluster, each with and without constants copied to shared
memory a phase ahead (kernels/cuda/one_launch). Barrier: the cluster's again for other costs of its barrier, which is a
guess. Bound: the cluster's if activations lay in the shared memory of the blocks that write them. Loads and stores of a
block's own cost an issue slot and the latency of shared memory, which needs no cluster. In the second bound what
another block has written comes after 180 clocks, once, and so does whatever the L2 cache gives, and the fence that the
compiler makes of every release. Fetched to L2: ResNet-8 on the Jetson Nano, whose weights do not fit into the L2 cache;
phase by phase as it is, and as if everything were there already, however large: the most that fetching weights there
ahead of a barrier can save. Writes results/cuda-cluster.{json,md}.

activations: whether activations in shared memory could make the launch faster. What a block writes to its shared memory
no other block reads, so a tensor can only be there if one block makes and reads all of it. ResNet-8's launch as it is,
and the same kernel as one block. Each also as a bound: loads and stores of activations cost an issue slot and nothing
else, their data is there after the latency of shared memory, and so is what other loads find in the L1 cache. Writes
results/cuda-shared-activations.{json,md}.

No planner of activations can be better than a bound.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import in_phases, one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch, LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.devices import DEVICES
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.plan import launch_memory
from edgemeta_proof.machine_code.timing.caches import Bandwidth
from edgemeta_proof.machine_code.timing.control import controls
from edgemeta_proof.machine_code.timing.generations import Generation
from edgemeta_proof.machine_code.timing.multiprocessor import timed
from edgemeta_proof.machine_code.timing.trace import SECTOR, Access, Block, Segment
from edgemeta_proof.machine_code.timing.whole import simulate_whole, trace_whole

COMMAND = "python benchmarks/cuda_one_launch.py"
NETWORKS = ("resnet8-cifar10", "resnet8-cifar10-paper", "backbone64")
TARGETS = ("sm_87", "sm_90")
BOUND_TARGETS = ("sm_53", "sm_87", "sm_90")
FORMS: Mapping[str, Callable[[LaunchPlan], LaunchPlan]] = {"one launch": one_launch, "cluster": one_cluster}
BARRIER_CLOCKS = (0, 180, 360, 540)
ANOTHER_BLOCKS_SHARED = 180
"""Clocks of a load from another block's shared memory (Luo et al. 2024, arXiv:2402.13499)."""


def main() -> None:
    """Simulate what the command names and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cluster")
    activations = commands.add_parser("activations")
    activations.add_argument("--arch", choices=BOUND_TARGETS, action="append", help="default: all")
    options = parser.parse_args()
    if options.command == "cluster":
        simulate_clusters()
    else:
        bound_activations(options.arch or BOUND_TARGETS)


class Simulated:
    """A plan of one launch, executed once; simulated as often as wanted."""

    def __init__(self, plan: LaunchPlan) -> None:
        (launch,) = plan.launches
        cubin = wheel_compiler().compile(launch.source, plan.architecture)
        kernel = read_kernel(cubin, launch.source.entry)
        self._device = DEVICES[plan.architecture.name]
        self._bandwidth = self._device.timer(plan).bandwidth
        self._multiprocessors = plan.architecture.multiprocessors
        self._code = list(zip(kernel.code.instructions, controls(cubin, launch.source.entry, kernel.code), strict=True))
        self.generation = self._device.generation
        self.launch = launch
        self.blocks = trace_whole(Program(kernel), launch, self.generation.group).blocks

    def with_own_data_free(self) -> list[Block]:
        """The blocks, in which an access to what only that block writes uses neither caches nor memory."""
        writers: dict[int, set[int]] = {}
        for number, sector in self._written():
            writers.setdefault(sector, set()).add(number)
        return [
            [[replace(each, accesses=_freed(each.accesses, writers, number)) for each in warp] for warp in block]
            for number, block in enumerate(self.blocks)
        ]

    def _written(self) -> Iterator[tuple[int, int]]:
        """Block and sector of each store to global memory."""
        for number, block in enumerate(self.blocks):
            for segment in chain.from_iterable(block):
                for index, access in segment.accesses.items():
                    if self._code[index][0].base == "STG":
                        yield from ((number, sector) for sector in access.sectors)

    def busy_us(self, generation: Generation | None = None, blocks: list[Block] | None = None) -> float:
        """Busy microseconds, by default as it is."""
        return round(self._ends(generation or self.generation, blocks or self.blocks, self._bandwidth)[-1], 1)

    def phases_us(self, is_warm: bool) -> tuple[float, ...]:
        """Microseconds of each phase. is_warm: everything is in the L2 cache before."""
        ends = self._ends(self.generation, self.blocks, replace(self._bandwidth, warm=is_warm))
        return tuple(round(end - begin, 1) for begin, end in pairwise((0.0, *ends)))

    def _ends(self, how: Generation, blocks: list[Block], bandwidth: Bandwidth) -> tuple[float, ...]:
        instructions = [timed(instruction, control, how) for instruction, control in self._code]
        ends = simulate_whole(blocks, instructions, how, bandwidth, self._multiprocessors)
        return tuple(end / self._device.clock_mhz for end in ends)


def _freed(accesses: Mapping[int, Access], writers: Mapping[int, set[int]], block: int) -> dict[int, Access]:
    """The accesses, without look-ups and sectors where only this block writes all of them."""
    return {
        index: Access(passes=access.passes)
        if access.sectors and all(writers.get(sector) == {block} for sector in access.sectors)
        else access
        for index, access in accesses.items()
    }


def simulate_clusters() -> None:
    """Clusters, constants copied ahead, barriers and weights in the L2 cache."""
    forms = [row for arch in TARGETS for name in NETWORKS for row in form_rows(name, arch)]
    bounds = [bound_row(name) for name in NETWORKS]
    nano = Simulated(one_launch(lower(load(find(NETWORKS[0])), ARCHITECTURES["sm_53"])))
    phases = {"as it is": nano.phases_us(is_warm=False), "fetched to L2": nano.phases_us(is_warm=True)}
    command = f"{COMMAND} cluster"
    write_json("cuda-cluster", command, {"forms": forms, "cluster": bounds, "nano_phases_us": phases})
    lines = [
        "One image, **predicted, not measured**, busy, us.",
        "",
        "| | network | form | blocks | without copies | constants copied ahead |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        *(
            f"| {DEVICES[str(each['arch'])].name} ({each['arch']}) | {each['network']} | {each['form']} "
            f"| {each['blocks']} | {each['without_us']:.1f} | {each['copied_us']:.1f} |"
            for each in forms
        ),
        "",
        "The cluster on sm_90: other costs of its barrier, in clocks, and the bound for activations in shared memory.",
        "",
        f"| network | {' | '.join(f'barrier {clocks}' for clocks in BARRIER_CLOCKS)} "
        "| bound, own | bound, own and another's |",
        f"| --- | {'---: | ' * len(BARRIER_CLOCKS)}---: | ---: |",
        *(
            f"| {each['network']} | {' | '.join(f'{time:.1f}' for time in each['barrier_us'].values())} "
            f"| {' | '.join(f'{time:.1f}' for time in each['bound_us'].values())} |"
            for each in bounds
        ),
        "",
        f"Phases of {NETWORKS[0]} on the {DEVICES['sm_53'].name}, us: as they are, and as if all data were in the L2",
        "cache before.",
        "",
        f"| | {' | '.join(str(n) for n in range(len(phases['as it is'])))} | sum |",
        f"| --- | {'---: | ' * len(phases['as it is'])}---: |",
        *(
            f"| {name} | {' | '.join(f'{time:.1f}' for time in each)} | {sum(each):.1f} |"
            for name, each in phases.items()
        ),
    ]
    write_markdown("cuda-cluster", command, "\n".join(lines))
    print(*lines, sep="\n")


def form_rows(name: str, arch: str) -> list[dict[str, object]]:
    """Every form of a network that an architecture has, with and without copies."""
    plan = lower(load(find(name)), ARCHITECTURES[arch])
    rows: list[dict[str, object]] = []
    for form, join in FORMS.items():
        if join is one_cluster and plan.architecture.cluster_blocks == 1:
            continue
        copied, without = Simulated(join(plan)), Simulated(join(without_room(plan)))
        times = {"without_us": without.busy_us(), "copied_us": copied.busy_us()}
        rows.append({"arch": arch, "network": name, "form": form, "blocks": copied.launch.grid[0], **times})
    return rows


def without_room(plan: LaunchPlan) -> LaunchPlan:
    """The plan for a device whose blocks have as much shared memory as the layers use, and no more."""
    used = max(launch.shared_bytes for launch in plan.launches)
    return replace(plan, architecture=replace(plan.architecture, shared_bytes=used))


def bound_row(name: str) -> dict[str, Any]:
    """The cluster with other barriers, and bounds for activations in shared memory."""
    cluster = Simulated(one_cluster(lower(load(find(name)), ARCHITECTURES["sm_90"])))
    how = cluster.generation
    own = replace(how, l1=how.shared)
    bound = {
        "own": cluster.busy_us(own, cluster.with_own_data_free()),
        "own and another's": cluster.busy_us(replace(own, l2=ANOTHER_BLOCKS_SHARED), cluster.with_own_data_free()),
    }
    barrier = {str(clocks): cluster.busy_us(replace(how, cluster=clocks)) for clocks in BARRIER_CLOCKS}
    return {"network": name, "barrier_us": barrier, "bound_us": bound}


def bound_activations(targets: Sequence[str]) -> None:
    """Activations in shared memory."""
    rows = [bound_of(name) for name in targets]
    command = f"{COMMAND} activations"
    write_json("cuda-shared-activations", command, {"network": NETWORKS[0], "targets": rows})
    lines = [
        f"{NETWORKS[0]} as one launch, one image, **predicted, not measured**, busy, us. Bound: activations cost an",
        "issue slot and the latency of shared memory, nothing else.",
        "",
        "| | blocks | as it is | bound | one block | one block, bound | alive at once, B | left in a block, B |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in rows:
        times = " | ".join(f"{each[key]:.1f}" for key in ("busy_us", "bound_us", "one_block_us", "one_block_bound_us"))
        sizes = f"{each['alive_bytes']:,} | {each['left_bytes']:,}"
        lines.append(f"| {each['device']} ({each['arch']}) | {each['blocks']} | {times} | {sizes} |")
    write_markdown("cuda-shared-activations", command, "\n".join(lines))
    print(*lines, sep="\n")


def bound_of(name: str) -> dict[str, object]:
    """Times of both forms of the launch and their bounds; what is alive, and what a block has left for it."""
    plan = lower(load(find(NETWORKS[0])), ARCHITECTURES[name])
    joined = one_launch(plan)
    (launch,) = joined.launches
    busy, bound = times(joined, launch)
    alone, alone_bound = times(joined, as_one_block(launch))
    return {
        "arch": name,
        "device": DEVICES[name].name,
        "blocks": launch.grid[0],
        "busy_us": busy,
        "bound_us": bound,
        "one_block_us": alone,
        "one_block_bound_us": alone_bound,
        "alive_bytes": alive_bytes(plan),
        "left_bytes": plan.architecture.shared_bytes - launch.shared_bytes,
    }


def as_one_block(launch: Launch) -> Launch:
    """The same kernel for one block, which may use all registers."""
    text = launch.source.text.replace(f"NETWORK_BLOCKS {launch.grid[0]}\n", "NETWORK_BLOCKS 1\n")
    text = text.replace(f"(NETWORK_THREADS, {launch.tile['per_multiprocessor']})", "(NETWORK_THREADS, 1)")
    return replace(launch, source=replace(launch.source, text=text), grid=(1, 1))


def times(plan: LaunchPlan, launch: Launch) -> tuple[float, float]:
    """Busy microseconds of a persistent launch: simulated, and the bound."""
    simulated = Simulated(replace(plan, launches=(launch,)))
    how, sectors = simulated.generation, activation_sectors(launch, plan.input)
    bound = [free(block, sectors) for block in simulated.blocks]
    return simulated.busy_us(), simulated.busy_us(replace(how, l1=how.shared), bound)


def activation_sectors(launch: Launch, network_input: Buffer) -> list[range]:
    """Sectors of the tensors that the launch writes and reads, as `trace_whole` places them."""
    _, pointers = launch_memory(launch, network_input)
    return [
        range(pointer // SECTOR, -(-(pointer + each.image_bytes) // SECTOR))
        for each, pointer in zip(launch.arguments, pointers, strict=True)
        if isinstance(each, Buffer)
    ]


def free(block: Block, sectors: Sequence[range]) -> Block:
    """The block, with accesses to those sectors that use neither caches nor memory."""
    return [[Segment(each.first, each.end, freed(each, sectors)) for each in warp] for warp in block]


def freed(segment: Segment, sectors: Sequence[range]) -> dict[int, Access]:
    """The accesses of a segment, without what those to the sectors look up and load."""
    return {
        index: Access(passes=access.passes)
        if access.sectors and any(access.sectors[0] in each for each in sectors)
        else access
        for index, access in segment.accesses.items()
    }


def alive_bytes(plan: LaunchPlan) -> int:
    """The most bytes of tensors that are written and still to be read, or being written, in one phase."""
    phases = [
        {each for launch in phase for each in launch.arguments if isinstance(each, Buffer)} for phase in in_phases(plan)
    ]
    alive = []
    for n in range(len(phases)):
        before, after = set().union(*phases[: n + 1]), set().union(*phases[n:])
        alive.append(sum(each.image_bytes for each in before & after))
    return max(alive)


if __name__ == "__main__":
    main()
