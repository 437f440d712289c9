"""Clocks of a launch: some of its blocks are simulated on one multiprocessor, the others continue at their pace.

Of a persistent launch all blocks are simulated (whole.py).
"""

import hashlib
from dataclasses import dataclass, field
from math import prod

from edgemeta.kernels.cuda.compile.compiler import Build
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Launch
from edgemeta.kernels.cuda.plan.prediction import resident_blocks
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.timing.caches import Bandwidth, Caches
from edgemeta_proof.machine_code.timing.control import controls
from edgemeta_proof.machine_code.timing.generations import Generation
from edgemeta_proof.machine_code.timing.multiprocessor import Multiprocessor, Timed, timed
from edgemeta_proof.machine_code.timing.trace import spread, trace
from edgemeta_proof.machine_code.timing.whole import WholeTrace, simulate_whole, trace_whole

_ROUNDS = 3


@dataclass
class LaunchTimer:
    """Times launches on one device; equal ones only once."""

    architecture: Architecture
    generation: Generation
    bandwidth: Bandwidth
    network_input: Buffer
    _known: dict[object, float] = field(default_factory=dict)
    _traces: dict[Launch, WholeTrace] = field(default_factory=dict)
    _phases: dict[Launch, tuple[float, ...]] = field(default_factory=dict)
    _programs: dict[bytes, tuple[Program, list[Timed]]] = field(default_factory=dict)

    def clocks(self, launch: Launch, build: Build) -> float:
        """Clocks from the first instruction of a launch for one image to its last store.

        Raises ExecutionError for machine code that is not modelled.
        """
        if launch.is_persistent:
            return self.phases(launch, build)[-1]
        sizes = tuple(_bytes(each) for each in launch.arguments)
        key = launch.source, launch.grid, launch.block, launch.shared_bytes, sizes
        if key not in self._known:
            self._known[key] = self._simulated(launch, build)
        return self._known[key]

    def whole_trace(self, launch: Launch, build: Build) -> WholeTrace:
        """All blocks of a persistent launch, executed once. Raises as `clocks`."""
        if launch not in self._traces:
            program, _ = self._program(launch, build)
            self._traces[launch] = trace_whole(program, launch, self.generation.group)
        return self._traces[launch]

    def phases(self, launch: Launch, build: Build) -> tuple[float, ...]:
        """Clocks at which each phase of a persistent launch ends, when its last block arrives at the barrier of all.

        All blocks are simulated, on all multiprocessors. Raises as `clocks`.
        """
        if launch not in self._phases:
            blocks = self.whole_trace(launch, build).blocks
            _, instructions = self._program(launch, build)
            count = self.architecture.multiprocessors
            self._phases[launch] = simulate_whole(blocks, instructions, self.generation, self.bandwidth, count)
        return self._phases[launch]

    def _simulated(self, launch: Launch, build: Build) -> float:
        """Simulate the blocks of the multiprocessor with the most, up to three rounds of them."""
        program, instructions = self._program(launch, build)
        shared = build.resources.shared_bytes + launch.shared_bytes
        registers = build.resources.registers
        resident = max(1, resident_blocks(prod(launch.block), registers, shared, self.architecture))
        share = -(-prod(launch.grid) // self.architecture.multiprocessors)
        count = min(share, _ROUNDS * resident)
        blocks = trace(program, launch, self.network_input, spread(launch.grid, count), self.generation.group)
        caches = Caches(self.generation, self.bandwidth)
        run = Multiprocessor(instructions, self.generation, caches, resident).run(blocks)
        if share == count:
            return run.end
        second, third = run.starts[resident : 2 * resident], run.starts[2 * resident :]
        per_block = (sum(third) - sum(second)) / resident**2
        return run.end + (share - count) * per_block

    def _program(self, launch: Launch, build: Build) -> tuple[Program, list[Timed]]:
        digest = hashlib.sha256(build.cubin).digest()
        if digest not in self._programs:
            entry = launch.source.entry
            kernel = read_kernel(build.cubin, entry)
            each = zip(kernel.code.instructions, controls(build.cubin, entry, kernel.code), strict=True)
            instructions = [timed(instruction, control, self.generation) for instruction, control in each]
            self._programs[digest] = Program(kernel), instructions
        return self._programs[digest]


def _bytes(argument: Argument) -> int:
    """Of one image, or of the data."""
    if isinstance(argument, Buffer):
        return argument.image_bytes
    return argument.data.nbytes if isinstance(argument, Constant) else 0
