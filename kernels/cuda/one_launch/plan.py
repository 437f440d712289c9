"""Joins the launches of a plan to one launch of a kernel whose blocks wait for each other between dependent layers.

Deadlock is impossible if all blocks of the launch are resident at once: a block that waits keeps its place, so a block
that has no place would never start. The kernel is compiled for `per_multiprocessor` blocks (`__launch_bounds__` limits
its registers), and `check_resident` proves with the compiled kernel's own figures that they are resident. Those of a
cluster start together or not at all.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from edgemeta.kernels.cuda.compile.resources import Resources
from edgemeta.kernels.cuda.one_launch.ahead import copied_ahead
from edgemeta.kernels.cuda.one_launch.source import BODIES, CLUSTER, WORD, Barrier, Shape, source_of
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch, LaunchPlan
from edgemeta.kernels.cuda.plan.prediction import resident_blocks
from edgemeta.kernels.lowering.steps import UnsupportedError

_WARP = 32
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT = 256, 4, 256
"""Registers are allocated to warps in units of 256, warps in fours, as each of the four schedulers has a quarter of the
registers; shared memory in units of at most 256 bytes (CUDA occupancy calculator).
"""

_SHARED_OF_THE_SYSTEM = 1024
"""Bytes of shared memory that the system uses in each block from compute capability 8.0 on (tuning guides)."""

_REGISTERS_LEAST = 80
"""Of a thread: less would make the layers' loops spill."""

GRAPH, NETWORK, ONE_CLUSTER = "graph", "network", "cluster"
"""Forms of a network: its launches as a CUDA graph, one launch whose blocks poll a word, one launch of a cluster."""

Forms = Mapping[str, LaunchPlan]
"""A network in every form that it has, GRAPH first."""


def forms_of(plan: LaunchPlan, multiprocessors: int | None = None) -> Forms:
    """Raises UnsupportedError for a network that has no form of one launch. multiprocessors: as of `one_launch`."""
    forms = {GRAPH: plan, NETWORK: one_launch(plan, multiprocessors)}
    if min(plan.architecture.cluster_blocks, multiprocessors or plan.architecture.multiprocessors) > 1:
        forms[ONE_CLUSTER] = one_cluster(plan, multiprocessors)
    return forms


def one_launch(plan: LaunchPlan, multiprocessors: int | None = None) -> LaunchPlan:
    """The same network as one launch. Raises UnsupportedError, which names a layer whose kernel cannot be joined.

    Launches that are joined already are joined with the others. multiprocessors: of the device, if it is known; else
    those of the architecture.
    """
    plan, multiprocessors = _parts(plan), multiprocessors or plan.architecture.multiprocessors
    together = resident(_threads(plan), _REGISTERS_LEAST, _shared_bytes(plan), plan.architecture)
    return _joined(plan, min(_most_blocks(plan), together * multiprocessors), multiprocessors, WORD)


def one_cluster(plan: LaunchPlan, multiprocessors: int | None = None) -> LaunchPlan:
    """The same network as one launch whose blocks are one cluster, each on a multiprocessor of its own.

    As many as the largest phase has, rounded up to a power of two: NVIDIA's documents show no other clusters. Raises
    UnsupportedError as `one_launch`, and if the device has no clusters.
    """
    plan, multiprocessors = _parts(plan), multiprocessors or plan.architecture.multiprocessors
    most = min(plan.architecture.cluster_blocks, multiprocessors)
    if most == 1:
        raise UnsupportedError(f"{plan.architecture.name} has no clusters of blocks")
    blocks = min(1 << most.bit_length() - 1, 1 << (_most_blocks(plan) - 1).bit_length())
    return _joined(plan, blocks, multiprocessors, CLUSTER)


def is_cluster(launch: Launch) -> bool:
    """Whether the blocks of a persistent launch are one cluster."""
    return "cluster" in launch.tile


def _parts(plan: LaunchPlan) -> LaunchPlan:
    """The plan with each joined launch taken apart. Raises UnsupportedError for a kernel that cannot be joined."""
    plan = replace(plan, launches=tuple(part for launch in plan.launches for part in launch.joins or (launch,)))
    for launch in plan.launches:
        if launch.source.path not in BODIES:
            raise UnsupportedError(
                f"layer {launch.layers[0]!r}: {launch.source.path} has no form for a launch of the whole network"
            )
    return plan


def _threads(plan: LaunchPlan) -> int:
    """Of a block: whole warps, for the widest launch."""
    return max(-(-prod(launch.block) // _WARP) * _WARP for launch in plan.launches)


def _shared_bytes(plan: LaunchPlan) -> int:
    return max(launch.shared_bytes for launch in plan.launches)


def _most_blocks(plan: LaunchPlan) -> int:
    """Of the largest phase."""
    return max(sum(prod(launch.grid) for launch in phase) for phase in in_phases(plan))


def _shared_limit(per_multiprocessor: int, architecture: Architecture) -> int:
    """Bytes of shared memory that a block may use if so many are resident on a multiprocessor."""
    share = architecture.resident_shared_bytes // per_multiprocessor // _SHARED_UNIT * _SHARED_UNIT
    return min(architecture.shared_bytes, share - _system_bytes(architecture))


def _joined(plan: LaunchPlan, blocks: int, multiprocessors: int, barrier: Barrier) -> LaunchPlan:
    phases = in_phases(plan)
    per_multiprocessor = -(-blocks // multiprocessors)
    limit = _shared_limit(per_multiprocessor, plan.architecture)
    ahead = copied_ahead(phases, _threads(plan), _shared_bytes(plan), limit)
    shape = Shape(_threads(plan), blocks, per_multiprocessor, barrier, ahead)
    source, arguments = source_of(phases, shape, plan.input)
    tile = {"phases": len(phases), "per_multiprocessor": shape.per_multiprocessor}
    joined = Launch(
        layers=tuple(name for launch in plan.launches for name in launch.layers),
        source=source,
        grid=(blocks, 1),
        block=(shape.threads, 1, 1),
        arguments=arguments,
        shared_bytes=ahead.end,
        tile={**tile, "cluster": blocks} if barrier is CLUSTER else tile,
        joins=plan.launches,
        input=plan.input,
    )
    return LaunchPlan(plan.architecture, (joined,), plan.input, plan.outputs)


def in_phases(plan: LaunchPlan) -> tuple[tuple[Launch, ...], ...]:
    """Launches that depend on none of the same phase, the largest first; each in the last phase before its readers.

    There are as many phases as the longest chain of launches has. What nobody reads is in the last one, whose layers
    are small, so that it fills blocks that would have nothing to do there. A tensor is written by the first launch that
    uses it.
    """
    depth: dict[Buffer, int] = {plan.input: 0}
    made: dict[Launch, set[Buffer]] = {}
    for launch in plan.launches:
        buffers = [each for each in launch.arguments if isinstance(each, Buffer)]
        made[launch] = {each for each in buffers if each not in depth}
        after = 1 + max(depth[each] for each in buffers if each in depth)
        depth.update(dict.fromkeys(made[launch], after))
    count = max(depth.values())
    latest: dict[Launch, int] = {}
    read: dict[Buffer, int] = {}  # the first phase that reads it
    for launch in reversed(plan.launches):
        latest[launch] = min((read[each] for each in made[launch] if each in read), default=count) - 1
        others = [each for each in launch.arguments if isinstance(each, Buffer) and each not in made[launch]]
        read.update({each: min(latest[launch], read.get(each, count)) for each in others})
    phases = [[launch for launch in plan.launches if latest[launch] == number] for number in range(count)]
    return tuple(tuple(sorted(phase, key=_size, reverse=True)) for phase in phases)


def _size(launch: Launch) -> int:
    return prod(launch.grid) * prod(launch.block)


def check_resident(launch: Launch, resources: Resources, architecture: Architecture, multiprocessors: int) -> None:
    """Prove that all blocks of a persistent launch are resident at once on a device. Raises UnsupportedError."""
    shared = resources.shared_bytes + launch.shared_bytes
    together = resident(prod(launch.block), resources.registers, shared, architecture) * multiprocessors
    if prod(launch.grid) > together:
        raise UnsupportedError(
            f"the {prod(launch.grid)} blocks of the whole network's launch wait for each other, but only {together} of "
            f"{prod(launch.block)} threads, {resources.registers} registers and {shared} bytes of shared memory are "
            f"resident at once on {multiprocessors} multiprocessors of {architecture.name}"
        )


def resident(threads: int, registers: int, shared_bytes: int, architecture: Architecture) -> int:
    """Blocks that are certainly resident at once on a multiprocessor, by the units in which it allocates."""
    shared = -(-(shared_bytes + _system_bytes(architecture)) // _SHARED_UNIT) * _SHARED_UNIT
    of_a_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps = architecture.registers // of_a_warp // _WARP_UNIT * _WARP_UNIT
    warps *= architecture.resident_registers // architecture.registers
    by_registers = warps // -(-threads // _WARP)
    return min(by_registers, resident_blocks(threads, registers, shared, architecture))


def _system_bytes(architecture: Architecture) -> int:
    """Of shared memory of each block that the system uses."""
    return _SHARED_OF_THE_SYSTEM if architecture.number >= 800 else 0
