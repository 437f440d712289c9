"""Executes the machine code of a launch plan on images: what a GPU would run, instruction by instruction."""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Counter, Launch, LaunchPlan, Source
from edgemeta_proof.machine_code.execution.cubin import read_kernel
from edgemeta_proof.machine_code.execution.global_memory import GlobalMemory, Region
from edgemeta_proof.machine_code.execution.machine import Order, Program
from edgemeta_proof.machine_code.execution.words import ExecutionError


class Compiles(Protocol):
    """The interface of a compiler that is used here."""

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A cubin of one variant. Raises CompilerError."""
        ...


class ExecutedPlan:
    """A launch plan with its kernels compiled and disassembled.

    Raises CompilerError, and SassError for machine code that cannot be disassembled or is not modelled.
    """

    def __init__(self, plan: LaunchPlan, compiler: Compiles, order: Order = "together") -> None:
        """order: of blocks that wait for each other."""
        self._plan = plan
        self._order = order
        self._programs = {
            source: Program(read_kernel(compiler.compile(source, plan.architecture), source.entry))
            for source in plan.sources
        }

    def run(self, batch: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The outputs, each [N, H, W, C], of a batch [N, H, W, C] of the model input's dtype.

        Raises ExecutionError, which names launch and instruction, for whatever is an error or undefined on a GPU.
        """
        arguments: list[Argument] = [*self._plan.buffers, *self._plan.constants, *self._plan.counters]
        memory = GlobalMemory([_of_a_plan(each, len(batch), self._plan.input) for each in arguments])
        garbage = np.random.default_rng(0)
        for number, each in enumerate(arguments):
            _fill(memory.content(number), each, garbage)
        memory.content(arguments.index(self._plan.input))[:] = np.ascontiguousarray(batch).reshape(-1).view(np.uint8)
        addresses = dict(zip(arguments, memory.addresses, strict=True))
        for launch in self._plan.launches:
            self._launch(launch, len(batch), memory, addresses)
        return tuple(
            memory.content(arguments.index(output)).view(output.kind.dtype).reshape(len(batch), *output.shape).copy()
            for output in self._plan.outputs
        )

    @property
    def warp_instructions(self) -> int:
        """Issued by all runs, without those of waiting for other blocks."""
        return sum(int(program.issued.sum()) for program in self._programs.values())

    def _launch(self, launch: Launch, images: int, memory: GlobalMemory, addresses: dict[Argument, int]) -> None:
        pointers = [addresses[each] for each in launch.arguments]
        grid, numbers = launch.grid_of(images), (images,) if launch.is_persistent else ()
        try:
            self._programs[launch.source].run(
                grid, launch.block, launch.shared_bytes, memory, pointers, numbers, self._order
            )
        except ExecutionError as error:
            raise ExecutionError(f"{'+'.join(launch.layers)}, {launch.source.path}: {error}") from None


def launch_memory(launch: Launch, network_input: Buffer) -> tuple[GlobalMemory, list[int]]:
    """Memory with a launch's arguments for one image, buffers filled with arbitrary bytes, and their addresses."""
    arguments: list[Argument] = list(dict.fromkeys(launch.arguments))
    memory = GlobalMemory([_of_a_plan(each, 1, network_input) for each in arguments])
    garbage = np.random.default_rng(0)
    for number, each in enumerate(arguments):
        _fill(memory.content(number), each, garbage)
    addresses = dict(zip(arguments, memory.addresses, strict=True))
    return memory, [addresses[each] for each in launch.arguments]


def _of_a_plan(each: Argument, images: int, network_input: Buffer) -> Region:
    """The memory of an argument; the network's input is never written, either."""
    region = _region(each, images)
    return replace(region, is_writable=False) if each is network_input else region


def _region(each: Argument, images: int) -> Region:
    """The memory of an argument; constants are never written."""
    if isinstance(each, Constant):
        return Region(each.name, each.data.nbytes, is_writable=False)
    if isinstance(each, Counter):
        return Region(each.name, 4, is_writable=True)
    return Region(each.name, images * each.image_bytes, is_writable=True)


def _fill(content: NDArray[np.uint8], each: Argument, garbage: np.random.Generator) -> None:
    """A constant's data; the zero point in a buffer's ring, garbage inside, so that an early read is noticed."""
    if isinstance(each, Constant):
        content[:] = each.data.reshape(-1).view(np.uint8)
        return
    if isinstance(each, Counter):
        content[:] = 0
        return
    content[:] = each.fill
    inside = content.view(each.kind.dtype).reshape(-1, *each.shape)[_inside(each)]
    inside[:] = np.frombuffer(garbage.bytes(inside.nbytes), inside.dtype).reshape(inside.shape)


def _inside(each: Buffer) -> tuple[slice, ...]:
    if each.packed:
        return (slice(None),)
    height, width, _ = each.kind.shape
    top, left, _, _ = each.ring
    return slice(None), slice(top, top + height), slice(left, left + width)
