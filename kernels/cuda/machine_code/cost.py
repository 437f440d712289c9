"""Cost of a launch plan: issued instructions and bytes per launch, and a predicted time for described devices."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.compile.resources import Resources
from edgemeta.kernels.cuda.machine_code.devices import DEVICES, DeviceDescription
from edgemeta.kernels.cuda.machine_code.interpreter import ExecutionCounts, run
from edgemeta.kernels.cuda.machine_code.sass import Code, SassError, disassemble
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Launch, LaunchPlan, Source
from edgemeta.kernels.cuda.plan.prediction import Work
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense

PRODUCTS = {"xmad": "XMAD", "idp": "IDP", "hfma2": "HFMA2", "imma": "IMMA"}
"""Opcodes by their names in reports: 16-bit multiply-add, dp4a, two half-precision multiply-adds, tensor-core int8."""


@dataclass(frozen=True)
class LaunchCost:
    """Cost of one launch for one image. macs: multiply-accumulates of its layers by the model's definition."""

    launch: Launch
    resources: Resources
    run: ExecutionCounts
    macs: int
    architecture: Architecture

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

    @property
    def work(self) -> Work:
        """Input of the prediction."""
        launch = self.launch
        return Work(
            prod(launch.grid),
            prod(launch.block),
            self.resources.registers,
            self.resources.shared_bytes + launch.shared_bytes,
            self.run.warp_instructions,
            self.run.longest,
        )

    @cached_property
    def busy_us(self) -> float | None:
        """Predicted microseconds without launch overhead; None without a device description."""
        device = DEVICES.get(self.architecture.name)
        return None if device is None else device.busy_us(self.work, self.run, self.footprint, self.architecture)


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
        count, busy = len(self.launches), sum(each.busy_us or 0.0 for each in self.launches)
        return {"busy": busy, "plain": self.device.plain_us(busy, count), "graph": self.device.graph_us(busy, count)}

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
    """Compile and disassemble every launch and execute its control flow.

    Raises CompilerError, and SassError if the loops of the machine code are not those that the launch declares.
    """
    macs = dict(_macs(model))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # the tools run outside the GIL
        built = list(pool.map(lambda launch: _built(launch.source, plan.architecture, compiler), plan.launches))
    launches = []
    for launch, (resources, code) in zip(plan.launches, built, strict=True):
        counted = run(code, launch.grid, launch.block)
        _check_loops(launch, counted)
        products = sum(macs.get(name, 0) for name in launch.layers)
        launches.append(LaunchCost(launch, resources, counted, products, plan.architecture))
    return Cost(tuple(launches), DEVICES.get(plan.architecture.name))


def _built(source: Source, architecture: Architecture, compiler: Compiler) -> tuple[Resources, Code]:
    build = compiler.build(source, architecture)
    return build.resources, disassemble(build.cubin, source.entry)


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
    }
