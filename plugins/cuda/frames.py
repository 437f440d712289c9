"""Runs of camera frames: they are copied to the device once, and preprocessed there before the network.

Where the network is one launch, its first phase may be the preprocessing.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.launch_plan import Constant, LaunchPlan
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout, tables_of
from edgemeta.kernels.cuda.preprocess.launch import FRAME_SHAPE, with_preprocessing
from edgemeta.model.errors import FrameError
from edgemeta.model.preprocess import ImageInput
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan

_MOST_KEPT = 16
"""Combinations of frame shapes whose sequences are kept."""

Form = Callable[[LaunchPlan], LaunchPlan]
"""Makes of a plan the form in which it runs: the plan itself, or the same as one launch."""


def as_it_is(plan: LaunchPlan) -> LaunchPlan:
    """The form with a launch for the preprocessing and those of the network."""
    return plan


Frames = Sequence[tuple[FrameLayout, NDArray[np.uint8]]]
"""Layouts, each with a frame's pixels, [H, W, 3] in B, G, R order or gray [H, W]."""


class FrameRuns:
    """Frames on a loaded plan. Every method is called inside `with device:` and raises the driver's errors.

    form: of preprocessing and network, where the network is one launch. Raises CompilerError where there is neither a
    compiled kernel nor a compiler, and UnsupportedError for a form that cannot run.
    """

    def __init__(self, model: ImageInput, loaded: LoadedPlan, form: Form) -> None:
        plan = with_preprocessing(loaded.plan, model, FRAME_SHAPE)
        self._frames, self._geometries, self._spans, self._table, _ = plan.launches[0].arguments
        assert isinstance(self._table, Constant)
        is_one_launch = any(launch.is_persistent for launch in plan.launches)
        self._launches = form(plan).launches if is_one_launch else plan.launches
        for launch in self._launches:
            loaded.load(launch)
        self._loaded = loaded
        self._table_memory: Any = loaded.device.cuda.to_device(self._table.data)
        self._memory: _FrameMemory | None = None
        self._combinations: OrderedDict[tuple[object, ...], _Combination] = OrderedDict()
        self._current: _Combination

    @property
    def images(self) -> int:
        """Of the frames taken last."""
        return self._current.images

    def load(self, frames: Frames) -> None:
        """Copy frames to page-locked memory."""
        for layout, pixels in frames:
            if pixels.shape != layout.frame_shape or pixels.dtype != np.uint8:
                found = f"{pixels.dtype} {list(pixels.shape)}"
                raise FrameError(f"a frame is {found}, expected uint8 {list(layout.frame_shape)}")
        self._current = self._combination_of(frames)
        memory = self._memory_for(self._current.nbytes)
        for (layout, pixels), offset in zip(frames, self._current.offsets, strict=True):
            layout.copy(pixels, memory.host[offset : offset + layout.nbytes])

    def run(self, outputs: tuple[NDArray[Any], ...]) -> None:
        """Preprocess the frames taken last, run the network, and write outputs [images, *shape]."""
        combination, most = self._current, self._loaded.most_images
        for start in range(0, combination.images, most):
            count = min(most, combination.images - start)
            enqueue = partial(self._enqueue, combination, start, count)
            part = tuple(output[start : start + count] for output in outputs)
            self._loaded.run_other((*combination.key, start), enqueue, count, part)

    def close(self) -> None:
        """Free all memory; a second call does nothing."""
        while self._combinations:
            self._forget_oldest()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._table_memory is not None:
            self._table_memory.free()
            self._table_memory = None

    def _combination_of(self, frames: Frames) -> "_Combination":
        key = tuple(layout.key for layout, _ in frames)
        if key not in self._combinations:
            if len(self._combinations) >= _MOST_KEPT:
                self._forget_oldest()
            layouts = [layout for layout, _ in frames]
            self._combinations[key] = _Combination(self._loaded.device.cuda, layouts, key)
        self._combinations.move_to_end(key)
        return self._combinations[key]

    def _memory_for(self, nbytes: int) -> "_FrameMemory":
        """Memory for at least that many bytes; when it grows, all captured sequences are discarded."""
        if self._memory is None or self._memory.host.nbytes < nbytes:
            for combination in self._combinations.values():
                self._forget_sequences(combination)
            if self._memory is not None:
                self._memory.close()
                self._memory = None
            self._memory = _FrameMemory(self._loaded.device.cuda, nbytes)
        return self._memory

    def _forget_oldest(self) -> None:
        _, combination = self._combinations.popitem(last=False)
        self._forget_sequences(combination)
        combination.close()

    def _forget_sequences(self, combination: "_Combination") -> None:
        for start in range(0, combination.images, self._loaded.most_images):
            self._loaded.forget((*combination.key, start))

    def _enqueue(self, combination: "_Combination", start: int, count: int) -> None:
        """Frames to the device, once for all parts of a run, and the launches for the images `start` .. of them."""
        assert self._memory is not None
        cuda, stream = self._loaded.device.cuda, self._loaded.device.stream
        if start == 0:
            cuda.memcpy_htod_async(self._memory.device, self._memory.host[: combination.nbytes], stream)
        geometries, spans = combination.tables(start)
        given = {
            self._frames: int(self._memory.device),
            self._geometries: geometries,
            self._spans: spans,
            self._table: int(self._table_memory),
        }
        for launch in self._launches:
            self._loaded.enqueue_launch(launch, count, given)


class _Combination:
    """Frames of certain shapes in a certain order, and their tables on the device."""

    def __init__(self, cuda: Any, layouts: Sequence[FrameLayout], key: tuple[object, ...]) -> None:
        tables = tables_of(layouts)
        self.key = key
        self.images = sum(layout.images for layout in layouts)
        self.offsets, self.nbytes = tables.offsets, tables.nbytes
        self._allocations = [cuda.to_device(each) for each in (tables.geometries, tables.spans)]
        self._image_bytes = tables.geometries[0].nbytes

    def tables(self, start: int) -> list[int]:
        """Addresses of the geometry of image `start`, and of the spans."""
        geometries, spans = self._allocations
        return [int(geometries) + start * self._image_bytes, int(spans)]

    def close(self) -> None:
        for allocation in self._allocations:
            allocation.free()
        self._allocations = []


class _FrameMemory:
    """Page-locked host memory for frames and as much on the device."""

    def __init__(self, cuda: Any, nbytes: int) -> None:
        self.host: NDArray[np.uint8] = cuda.pagelocked_empty((nbytes,), np.uint8)
        try:
            self.device = cuda.mem_alloc(nbytes)
        except BaseException:
            self._free_host()
            raise

    def close(self) -> None:
        self.device.free()
        self._free_host()

    def _free_host(self) -> None:
        base: Any = self.host.base
        base.free()
