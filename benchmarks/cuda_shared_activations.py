"""Whether activations in shared memory could make a network's one launch faster: a bound by simulation.

    python benchmarks/cuda_shared_activations.py [--arch sm_53]

What a block writes to its shared memory no other block reads, so a tensor can only be there if one block makes and
reads all of it. Simulated (machine_code/timing) are ResNet-8's launch as it is, and the same kernel as one
block. Each also as a bound: loads and stores of activations cost an issue slot and nothing else, their data is there
after the latency of shared memory, and so is what other loads find in the L1 cache. No planner of activations can be
better than the bound. Writes results/cuda-shared-activations.{json,md}.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import in_phases, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch, LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.devices import DEVICES
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.plan import launch_memory
from edgemeta_proof.machine_code.timing.control import controls
from edgemeta_proof.machine_code.timing.multiprocessor import timed
from edgemeta_proof.machine_code.timing.trace import SECTOR, Access, Block, Segment
from edgemeta_proof.machine_code.timing.whole import simulate_whole, trace_whole

COMMAND = "python benchmarks/cuda_shared_activations.py"
NETWORK = "resnet8-cifar10"
TARGETS = ("sm_53", "sm_87", "sm_90")


def main() -> None:
    """Simulate and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=TARGETS, action="append", help="default: all")
    targets: Sequence[str] = parser.parse_args().arch or TARGETS
    rows = [row(name) for name in targets]
    write_json("cuda-shared-activations", COMMAND, {"network": NETWORK, "targets": rows})
    lines = [
        f"{NETWORK} as one launch, one image, **predicted, not measured**, busy, us. Bound: activations cost an issue",
        "slot and the latency of shared memory, nothing else.",
        "",
        "| | blocks | as it is | bound | one block | one block, bound | alive at once, B | left in a block, B |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in rows:
        times = " | ".join(f"{each[key]:.1f}" for key in ("busy_us", "bound_us", "one_block_us", "one_block_bound_us"))
        sizes = f"{each['alive_bytes']:,} | {each['left_bytes']:,}"
        lines.append(f"| {each['device']} ({each['arch']}) | {each['blocks']} | {times} | {sizes} |")
    write_markdown("cuda-shared-activations", COMMAND, "\n".join(lines))
    print(*lines, sep="\n")


def row(name: str) -> dict[str, object]:
    """Times of both forms of the launch and their bounds; what is alive, and what a block has left for it."""
    plan = lower(load(find(NETWORK)), ARCHITECTURES[name])
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
    device = DEVICES[plan.architecture.name]
    cubin = wheel_compiler().compile(launch.source, plan.architecture)
    kernel = read_kernel(cubin, launch.source.entry)
    generation, bandwidth = device.generation, device.timer(plan).bandwidth
    ideal = replace(generation, l1=generation.shared)
    blocks = trace_whole(Program(kernel), launch, generation.group).blocks
    sectors = activation_sectors(launch, plan.input)
    found = []
    for made, how in ((blocks, generation), ([free(block, sectors) for block in blocks], ideal)):
        each = zip(kernel.code.instructions, controls(cubin, launch.source.entry, kernel.code), strict=True)
        instructions = [timed(instruction, control, how) for instruction, control in each]
        ends = simulate_whole(made, instructions, how, bandwidth, plan.architecture.multiprocessors)
        found.append(round(ends[-1] / device.clock_mhz, 1))
    return found[0], found[1]


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
