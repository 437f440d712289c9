"""A launch plan loaded onto a device: modules, constants, and one prepared call per batch size."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.resources import Resources
from edgemeta.kernels.cuda.one_launch.plan import check_resident
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Counter, Launch, LaunchPlan, Source
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.graph import CapturedGraph, DirectLaunches

_MOST_IMAGES = 1024
_ARENA_BYTES = 256 << 20
_STATIC_SHARED_BYTES = 48 << 10  # a kernel that uses more must be configured for it


class Arena:
    """All buffers of a plan for up to `images` images, filled once with their padding byte.

    Created and closed inside `with device:`. Raises the driver's error, with nothing left allocated.

    input, outputs: page-locked arrays [images, *shape] of the plan's input and outputs.
    """

    def __init__(self, device: DeviceContext, plan: LaunchPlan, images: int) -> None:
        self.images = images
        self._allocations: dict[Buffer, Any] = {}
        self._page_locked: list[NDArray[Any]] = []
        cuda = device.cuda
        try:
            for buffer in plan.buffers:
                bytes_ = images * buffer.image_bytes
                allocation = cuda.mem_alloc(bytes_)
                self._allocations[buffer] = allocation
                cuda.memset_d8_async(allocation, buffer.fill, bytes_, device.stream)
            self.input = self._staging(cuda, plan.input)
            self.outputs = tuple(self._staging(cuda, output) for output in plan.outputs)
            device.stream.synchronize()
        except BaseException:
            self.close()
            raise

    def address(self, buffer: Buffer) -> int:
        """Device address of image 0 of a buffer."""
        return int(self._allocations[buffer])

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        for array in self._page_locked:
            base: Any = array.base
            base.free()
        self._page_locked.clear()
        for allocation in self._allocations.values():
            allocation.free()
        self._allocations.clear()

    def _staging(self, cuda: Any, buffer: Buffer) -> NDArray[Any]:
        array: NDArray[Any] = cuda.pagelocked_empty((self.images, *buffer.shape), np.dtype(buffer.kind.dtype))
        self._page_locked.append(array)
        return array


@dataclass(frozen=True)
class _Call:
    """A prepared run of one batch size: the input array, the sequence to replay, the output arrays."""

    input: NDArray[Any]
    sequence: CapturedGraph | DirectLaunches
    outputs: tuple[NDArray[Any], ...]


class LoadedPlan:
    """A launch plan on a device. Every method is called inside `with device:` and raises the driver's errors.

    cubins: supplies machine code. sequence: `CapturedGraph` (one CUDA graph per batch size) or `DirectLaunches`
    (prepared launches, one by one). A batch larger than `most_images` runs in parts, so that memory stays bounded.
    Raises UnsupportedError if the blocks of a persistent launch are not resident at once on the device.
    """

    def __init__(
        self, device: DeviceContext, plan: LaunchPlan, cubins: Cubins, sequence: type[CapturedGraph | DirectLaunches]
    ) -> None:
        self.device = device
        self.plan = plan
        image_bytes = sum(buffer.image_bytes for buffer in plan.buffers)
        self.most_images = max(1, min(_MOST_IMAGES, _ARENA_BYTES // image_bytes))
        self._make_sequence = sequence
        self._arena: Arena | None = None
        self._calls: dict[int, _Call] = {}
        self._sequences: dict[Hashable, CapturedGraph | DirectLaunches] = {}
        self._kept: dict[Constant | Counter, Any] = {}
        self._modules: list[Any] = []
        self._functions: dict[Source, Any] = {}
        self._cubins = cubins
        try:
            for launch in plan.launches:
                self.load(launch)
            for constant in plan.constants:
                self._kept[constant] = device.cuda.mem_alloc(max(1, constant.data.nbytes))
                device.cuda.memcpy_htod(self._kept[constant], constant.data)
            for counter in plan.counters:
                self._kept[counter] = device.cuda.mem_alloc(4)
                device.cuda.memcpy_htod(self._kept[counter], np.zeros(1, np.uint32))
        except BaseException:
            self.close()
            raise

    def run(self, batch: NDArray[Any], outputs: tuple[NDArray[Any], ...]) -> None:
        """Run images [N, *input shape] and write outputs [N, *output shape]; returns when they are complete."""
        images = len(batch)
        if images > self.most_images:
            for start in range(0, images, self.most_images):
                part = slice(start, start + self.most_images)
                self.run(batch[part], tuple(output[part] for output in outputs))
            return
        call = self._calls.get(images) or self._new_call(images)
        np.copyto(call.input, batch)
        self._complete(call.sequence, call.outputs, outputs)

    def run_other(
        self, key: Hashable, enqueue: Callable[[], None], images: int, outputs: tuple[NDArray[Any], ...]
    ) -> None:
        """As `run`, where `enqueue` puts input and launches on the stream; at most `most_images` images.

        key: of the sequence of `enqueue` and the copies of the outputs, as in `sequence`.
        """
        targets = tuple(output[:images] for output in self._arena_for(images).outputs)
        self._complete(self.sequence(key, partial(self._enqueue, enqueue, targets)), targets, outputs)

    def new_outputs(self, images: int) -> tuple[NDArray[Any], ...]:
        """Arrays [images, *output shape] for `run` to write."""
        return tuple(np.empty((images, *output.shape), output.kind.dtype) for output in self.plan.outputs)

    def load(self, launch: Launch) -> None:
        """Load the kernel of a launch. Raises CompilerError, UnsupportedError."""
        source = launch.source
        if source not in self._functions:
            module = self.device.cuda.module_from_buffer(self._cubins.get(source, self.plan.architecture))
            self._modules.append(module)
            function = self._functions[source] = module.get_function(source.entry)
            function.prepare("P" * len(launch.arguments) + "i" * launch.is_persistent)
        function = self._functions[source]
        if launch.is_persistent:
            compiled = Resources(function.num_regs, function.shared_size_bytes, 0, 0, 0)
            check_resident(launch, compiled, self.plan.architecture, self.device.multiprocessors)
        if launch.shared_bytes > _STATIC_SHARED_BYTES:
            attribute = self.device.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.shared_bytes)

    def enqueue_launch(self, launch: Launch, images: int, given: Mapping[Argument, int] | None = None) -> None:
        """Put a loaded launch on the stream. given: addresses of arguments that are not in the plan."""
        given = given or {}
        pointers = [given[each] if each in given else self._address(each) for each in launch.arguments]
        function = self._functions[launch.source]
        numbers = (images,) if launch.is_persistent else ()
        grid, stream = launch.grid_of(images), self.device.stream
        function.prepared_async_call(grid, launch.block, stream, *pointers, *numbers, shared_size=launch.shared_bytes)

    def enqueue_launches(self, images: int) -> None:
        """Put all launches on the stream; input and output stay on the device."""
        for launch in self.plan.launches:
            self.enqueue_launch(launch, images)

    def sequence(self, key: Hashable, enqueue: Callable[[], None]) -> CapturedGraph | DirectLaunches:
        """The sequence of `enqueue`, captured at the first use of `key` and again after memory has moved."""
        if key not in self._sequences:
            self._sequences[key] = self._make_sequence(self.device.cuda, self.device.stream, enqueue)
        return self._sequences[key]

    def forget(self, key: Hashable) -> None:
        """Discard the sequence of a key, if there is one."""
        if key in self._sequences:
            self._sequences.pop(key).close()

    def close(self) -> None:
        """Free all device resources of the plan; a second call does nothing."""
        self._release_arena()
        for allocation in self._kept.values():
            allocation.free()
        self._kept.clear()
        self._functions.clear()
        self._modules.clear()

    def _new_call(self, images: int) -> _Call:
        arena = self._arena_for(images)
        source, targets = arena.input[:images], tuple(output[:images] for output in arena.outputs)
        enqueue = partial(self._enqueue, partial(self._enqueue_batch, source), targets)
        call = _Call(source, self.sequence(images, enqueue), targets)
        self._calls[images] = call
        return call

    def _arena_for(self, images: int) -> Arena:
        """Memory for at least that many images; when it grows, all captured sequences are discarded."""
        if self._arena is None or self._arena.images < images:
            self._release_arena()
            self._arena = Arena(self.device, self.plan, images)
        return self._arena

    def _complete(
        self,
        sequence: CapturedGraph | DirectLaunches,
        staged: tuple[NDArray[Any], ...],
        outputs: tuple[NDArray[Any], ...],
    ) -> None:
        """Launch a sequence, wait for it, and copy what it left in page-locked memory."""
        sequence.launch()
        self.device.stream.synchronize()
        for output, each in zip(outputs, staged, strict=True):
            np.copyto(output, each)

    def _enqueue_batch(self, source: NDArray[Any]) -> None:
        self.device.cuda.memcpy_htod_async(self._address(self.plan.input), source, self.device.stream)
        self.enqueue_launches(len(source))

    def _enqueue(self, enqueue: Callable[[], None], targets: tuple[NDArray[Any], ...]) -> None:
        cuda, stream = self.device.cuda, self.device.stream
        enqueue()
        for target, output in zip(targets, self.plan.outputs, strict=True):
            cuda.memcpy_dtoh_async(target, self._address(output), stream)

    def _address(self, argument: Argument) -> int:
        if isinstance(argument, Buffer):
            assert self._arena is not None
            return self._arena.address(argument)
        return int(self._kept[argument])

    def _release_arena(self) -> None:
        self._calls.clear()
        for sequence in self._sequences.values():
            sequence.close()
        self._sequences.clear()
        if self._arena is not None:
            self._arena.close()
            self._arena = None
