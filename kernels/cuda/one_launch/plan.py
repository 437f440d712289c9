"""Joins the launches of a plan to one launch of a kernel whose blocks wait for each other between dependent layers.

Deadlock is impossible if all blocks of the launch are resident at once: a block that waits keeps its place, so a block
that has no place would never start. The kernel is compiled for `per_multiprocessor` blocks (`__launch_bounds__` limits
its registers), and `check_resident` proves with the compiled kernel's own figures that they are resident.
"""

from dataclasses import replace
from math import prod

from edgemeta.kernels.cuda.compile.resources import Resources
from edgemeta.kernels.cuda.one_launch.source import BODIES, Shape, source_of
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Counter, Launch, LaunchPlan, UnsupportedError
from edgemeta.kernels.cuda.plan.prediction import resident_blocks

_WARP = 32
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT = 256, 4, 256
"""Registers are allocated to warps in units of 256, warps in fours, as each of the four schedulers has a quarter of the
registers; shared memory in units of at most 256 bytes (CUDA occupancy calculator).
"""

_SHARED_OF_THE_SYSTEM = 1024
"""Bytes of shared memory that the system uses in each block from compute capability 8.0 on (tuning guides)."""

_REGISTERS_LEAST = 80
"""Of a thread: less would make the layers' loops spill."""


def one_launch(plan: LaunchPlan, multiprocessors: int | None = None) -> LaunchPlan:
    """The same network as one launch. Raises UnsupportedError, which names a layer whose kernel cannot be joined.

    Launches that are joined already are joined with the others. multiprocessors: of the device, if it is known; else
    those of the architecture.
    """
    plan = replace(plan, launches=tuple(part for launch in plan.launches for part in launch.joins or (launch,)))
    for launch in plan.launches:
        if launch.source.path not in BODIES:
            raise UnsupportedError(
                f"layer {launch.layers[0]!r}: {launch.source.path} has no form for a launch of the whole network"
            )
    phases, architecture = in_phases(plan), plan.architecture
    multiprocessors = multiprocessors or architecture.multiprocessors
    threads = max(-(-prod(launch.block) // _WARP) * _WARP for launch in plan.launches)
    shared = max(launch.shared_bytes for launch in plan.launches)
    together = resident(threads, _REGISTERS_LEAST, shared, architecture)
    most = max(sum(prod(launch.grid) for launch in phase) for phase in phases)
    blocks = min(most, together * multiprocessors)
    shape = Shape(threads, blocks, -(-blocks // multiprocessors))
    source, arguments = source_of(phases, shape, plan.input)
    joined = Launch(
        layers=tuple(name for launch in plan.launches for name in launch.layers),
        source=source,
        grid=(blocks, 1),
        block=(threads, 1, 1),
        arguments=(*arguments, Counter("barrier")),
        shared_bytes=shared,
        tile={"phases": len(phases), "per_multiprocessor": shape.per_multiprocessor},
        joins=plan.launches,
        input=plan.input,
    )
    return LaunchPlan(architecture, (joined,), plan.input, plan.outputs)


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
    system = _SHARED_OF_THE_SYSTEM if architecture.number >= 800 else 0
    shared = -(-(shared_bytes + system) // _SHARED_UNIT) * _SHARED_UNIT
    of_a_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps = architecture.registers // of_a_warp // _WARP_UNIT * _WARP_UNIT
    warps *= architecture.resident_registers // architecture.registers
    by_registers = warps // -(-threads // _WARP)
    return min(by_registers, resident_blocks(threads, registers, shared, architecture))
