"""Runs a launch plan on the CPU, launch by launch, with exactly the guarantees of the contract."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Launch, LaunchPlan, Source
from tests.emulation.compiler import STORE, EmulationCompiler
from tests.emulation.memory import BufferMemory, ConstantMemory, CounterMemory
from tests.emulation.module import EmulationError, Module, load

Order: TypeAlias = Literal["forward", "reverse"] | int
"""Of blocks, warps and lanes between two barriers; a number greater than 0 is the seed of a shuffle."""

_STATIC_SHARED = 48 << 10  # CUDA's limit of static shared memory, on every architecture
_MAX_THREADS = 1024


class Images(Protocol):
    """A source of compiled modules."""

    def get(self, source: Source, architecture: Architecture) -> bytes:
        """The host module of a variant."""
        ...


def cached(mode: str) -> Images:
    """Modules of a mode, kept in the store."""
    return Cubins(STORE, EmulationCompiler(mode))


class StoringCompiler:
    """Modules of EmulationCompiler, compiled once for all tests and then read from the cache.

    By default modules of mode `quick`, which compile fast; `fast` ones pay off from about 60 images on.
    """

    def __init__(self, mode: str = "quick") -> None:
        self._modules = cached(mode)
        self.version = EmulationCompiler(mode).version

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A compiled module. Raises CompilerError with the error of g++."""
        return self._modules.get(source, architecture)


class Emulator:
    """A plan with its modules compiled and its constants in memory.

    order: of threads. mode: a key of `compiler.MODES`. images: where modules come from; None compiles and caches
    them. poison: the byte in shared memory that nobody has written. Raises CompilerError, and EmulationError for a
    launch that the architecture could not take.

    barriers: how often all blocks of a launch passed a `__syncthreads` in the last run.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        order: Order = "forward",
        mode: str = "fast",
        images: Images | None = None,
        poison: int = 0xA5,
    ) -> None:
        self._plan = plan
        self._order = order if isinstance(order, int) else {"forward": 0, "reverse": -1}[order]
        self._poison = poison
        self._modules = _modules(plan, images or cached(mode))
        self.barriers: dict[Launch, int] = {}
        self._kept: dict[Argument, ConstantMemory | CounterMemory] = {
            **{constant: ConstantMemory(constant) for constant in plan.constants},
            **{counter: CounterMemory(counter) for counter in plan.counters},
        }
        for launch in plan.launches:
            self._check_limits(launch)

    def run(self, batch: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """The outputs, each [N, H, W, C], of a batch [N, H, W, C] of the model input's dtype. Raises EmulationError."""
        garbage = np.random.default_rng(0)
        buffers = {buffer: BufferMemory(buffer, len(batch), garbage) for buffer in self._plan.buffers}
        buffers[self._plan.input].array[:] = batch
        for launch in self._plan.launches:
            self._launch(launch, buffers, len(batch))
        return tuple(buffers[output].array.copy() for output in self._plan.outputs)

    def _launch(self, launch: Launch, buffers: Mapping[Buffer, BufferMemory], images: int) -> None:
        memories = [buffers[a] if isinstance(a, Buffer) else self._kept[a] for a in launch.arguments]
        try:
            self._modules[launch.source].launch(
                launch.source.entry,
                launch.grid_of(images),
                launch.block,
                launch.shared_bytes,
                [memory.object for memory in memories],
                self._order,
                self._poison,
                (images,) if launch.is_persistent else (),
            )
            self.barriers[launch] = self._modules[launch.source].barriers
            for memory in memories:
                memory.check()
        except EmulationError as error:
            raise EmulationError(f"{'+'.join(launch.layers)}: {error}") from None

    def _check_limits(self, launch: Launch) -> None:
        name, architecture = "+".join(launch.layers), self._plan.architecture
        threads = int(np.prod(launch.block))
        if threads > _MAX_THREADS:
            raise EmulationError(f"{name}: {threads} threads in a block, at most {_MAX_THREADS} can be")
        static = self._modules[launch.source].static_shared_bytes
        if static > _STATIC_SHARED or static + launch.shared_bytes > architecture.shared_bytes:
            raise EmulationError(
                f"{name}: {static} bytes of static and {launch.shared_bytes} of dynamic shared memory; "
                f"{architecture.name} has {_STATIC_SHARED} and {architecture.shared_bytes} in all"
            )


def _modules(plan: LaunchPlan, images: Images) -> dict[Source, Module]:
    """Every variant of a plan, compiled on all cores that this process may use."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = pool.map(lambda source: images.get(source, plan.architecture), plan.sources)
        return {source: load(image) for source, image in zip(plan.sources, made, strict=True)}
