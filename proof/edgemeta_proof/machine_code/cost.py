"""Cost of a launch plan: issued instructions and bytes per launch, and a predicted time for described devices."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from edgemeta.kernels.cuda.compile.compiler import Build, Compiler
from edgemeta.kernels.cuda.compile.resources import Resources
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Launch, LaunchPlan, Source
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense
from edgemeta_proof.machine_code.devices import DEVICES, DeviceDescription
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.words import WARP
from edgemeta_proof.machine_code.interpreter import ExecutionCounts, run
from edgemeta_proof.machine_code.sass import Code, SassError, disassemble
from edgemeta_proof.machine_code.timing.launch import LaunchTimer
from edgemeta_proof.machine_code.timing.whole import trace_whole

PRODUCTS = {"xmad": "XMAD", "idp": "IDP", "hfma2": "HFMA2", "imma": "IMMA", "popc": "POPC"}
"""Opcodes by their names in reports: 16-bit multiply-add, dp4a, two half-precision multiply-adds, tensor cores, and
the number of ones.
"""


@dataclass(frozen=True)
class LaunchCost:
    """Cost of one launch for one image. macs: multiply-accumulates of its layers by the model's definition."""

    launch: Launch
    build: Build
    run: ExecutionCounts
    macs: int
    architecture: Architecture
    timer: LaunchTimer | None

    @property
    def resources(self) -> Resources:
        """Registers and shared memory, as ptxas reports them."""
        return self.build.resources

    @property
    def footprint(self) -> int:
        """Bytes of all data that it reads and writes, each counted once: activations of one image, weights, tables."""
        arguments = self.launch.arguments
        return sum(a.image_bytes for a in arguments if isinstance(a, Buffer)) + sum(
            a.data.nbytes for a in arguments if isinstance(a, Constant)
        )

    def share(self, opcode: str) -> float:
        """Share of `opcode` in the issued instructions, 0 .. 1."""
        return self.run.issued.get(opcode, 0) / self.run.warp_instructions

    @cached_property
    def busy_us(self) -> float | None:
        """Predicted microseconds without launch overhead, simulated when first asked for; None without a description.

        Raises ExecutionError for machine code that is not modelled.
        """
        if self.timer is None:
            return None
        return self.timer.clocks(self.launch, self.build) / DEVICES[self.architecture.name].clock_mhz

    @cached_property
    def phases_us(self) -> tuple[float, ...]:
        """Of a persistent launch: predicted microseconds of each phase, from the last arrival at a barrier to the next.

        Empty for other launches, and without a description. Raises as `busy_us`.
        """
        if self.timer is None or not self.launch.is_persistent:
            return ()
        ends = self.timer.phases(self.launch, self.build)
        clock_mhz = DEVICES[self.architecture.name].clock_mhz
        return tuple((end - begin) / clock_mhz for begin, end in pairwise((0.0, *ends)))


@dataclass(frozen=True)
class Cost:
    """A plan's launches, in order."""

    launches: tuple[LaunchCost, ...]
    device: DeviceDescription | None

    @property
    def warp_instructions(self) -> int:
        """Issued warp-instructions for one image."""
        return sum(each.run.warp_instructions for each in self.launches)

    @property
    def predicted_us(self) -> Mapping[str, float]:
        """Microseconds for one image: busy, launched one by one, as a CUDA graph; empty without a description."""
        if self.device is None:
            return {}
        busy = [each.busy_us or 0.0 for each in self.launches]
        return {"busy": sum(busy), "plain": self.device.plain_us(busy), "graph": self.device.graph_us(busy)}

    def share(self, opcode: str) -> float:
        """Share of `opcode` in the issued instructions, 0 .. 1."""
        return sum(each.run.issued.get(opcode, 0) for each in self.launches) / self.warp_instructions

    def as_json(self) -> dict[str, object]:
        """The figures as `edgemeta kernels report --json` prints them."""
        return {
            "launches": len(self.launches),
            "warp_instructions": self.warp_instructions,
            "predicted_us": {way: round(time, 1) for way, time in self.predicted_us.items()},
            "shares": {name: round(self.share(opcode), 4) for name, opcode in PRODUCTS.items()},
            "layers": [_row(each) for each in self.launches],
        }


def cost(plan: LaunchPlan, model: Model, compiler: Compiler) -> Cost:
    """Compile and disassemble every launch and execute its control flow; a persistent one is executed on data.

    Its blocks wait for each other, so its control flow depends on data; its counts are without those of waiting. Raises
    CompilerError, SassError if the loops of the machine code are not those that the launch declares, and
    ExecutionError for a persistent launch that is not modelled.
    """
    macs = dict(_macs(model))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # the tools run outside the GIL
        found = pool.map(lambda source: _built(source, plan.architecture, compiler), plan.sources)
        built = dict(zip(plan.sources, found, strict=True))
    device = DEVICES.get(plan.architecture.name)
    timer = None if device is None else device.timer(plan)
    launches = []
    for launch in plan.launches:
        build, code = built[launch.source]
        counted = _executed(launch, build, timer) if launch.is_persistent else _counted(launch, code)
        products = sum(macs.get(name, 0) for name in launch.layers)
        launches.append(LaunchCost(launch, build, counted, products, plan.architecture, timer))
    return Cost(tuple(launches), device)


def _built(source: Source, architecture: Architecture, compiler: Compiler) -> tuple[Build, Code]:
    build = compiler.build(source, architecture)
    return build, disassemble(build.cubin, source.entry)


def _counted(launch: Launch, code: Code) -> ExecutionCounts:
    counted = run(code, launch.grid, launch.block)
    _check_loops(launch, counted)
    return counted


def _executed(launch: Launch, build: Build, timer: LaunchTimer | None) -> ExecutionCounts:
    if timer is not None:
        return timer.whole_trace(launch, build).counts
    program = Program(read_kernel(build.cubin, launch.source.entry))
    return trace_whole(program, launch, WARP).counts


def _check_loops(launch: Launch, counted: ExecutionCounts) -> None:
    """Compare declared and found loops, ignoring loops of one iteration and the order."""
    declared = sorted(trips for trips in launch.loops if trips > 1)
    if declared != sorted(counted.loops):
        raise SassError(
            f"{'+'.join(launch.layers)}: the loops in the machine code of {launch.source.path} have the trip counts "
            f"{counted.loops}, the launch declares {launch.loops}"
        )


def _macs(model: Model) -> Iterator[tuple[str, int]]:
    for layer in model.layers:
        if isinstance(layer, Conv | Dense):
            yield layer.name, prod(layer.weights.shape) * prod(layer.output.shape[:2])


def _row(each: LaunchCost) -> Mapping[str, object]:
    launch, counted = each.launch, each.run
    return {
        "layers": list(launch.layers),
        "kernel": launch.source.path,
        "tile": dict(launch.tile),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "registers": each.resources.registers,
        "shared_bytes": each.resources.shared_bytes + launch.shared_bytes,
        "loops": list(counted.loops),
        "macs": each.macs,
        "warp_instructions": counted.warp_instructions,
        "shares": {name: round(each.share(opcode), 4) for name, opcode in PRODUCTS.items()},
        "read_bytes": counted.read_bytes,
        "written_bytes": counted.written_bytes,
        "footprint_bytes": each.footprint,
        "busy_us": None if each.busy_us is None else round(each.busy_us, 1),
        **({"phases_us": [round(time, 1) for time in each.phases_us]} if each.phases_us else {}),
    }
