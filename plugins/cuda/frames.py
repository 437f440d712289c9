"""Runs of camera frames: they are copied to the device once, preprocessed there, and followed by the network."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.launch_plan import Launch
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout, tables_of
from edgemeta.kernels.cuda.preprocess.launch import preprocessing_launch, preprocessing_source, preprocessing_table
from edgemeta.model.errors import FrameError
from edgemeta.model.preprocess import ImageInput
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan

_MOST_KEPT = 16
"""Combinations of frame shapes whose sequences are kept."""

_ARGUMENTS = 5
"""Of the kernel."""

Frames = Sequence[tuple[FrameLayout, NDArray[np.uint8]]]


class FrameRuns:
    """Frames on a loaded plan. Every method is called inside `with device:` and raises the driver's errors.

    Raises CompilerError where there is neither a compiled kernel nor a compiler.
    """

    def __init__(self, model: ImageInput, loaded: LoadedPlan) -> None:
        loaded.load_kernel(preprocessing_source(model, loaded.plan.architecture), _ARGUMENTS)
        self._model = model
        self._loaded = loaded
        self._table: Any = loaded.device.cuda.to_device(preprocessing_table(model).data)
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
            prepare = partial(self._enqueue, combination, start, count)
            part = tuple(output[start : start + count] for output in outputs)
            self._loaded.run_after((*combination.key, start), prepare, count, part)

    def close(self) -> None:
        """Free all memory; a second call does nothing."""
        while self._combinations:
            self._forget_oldest()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._table is not None:
            self._table.free()
            self._table = None

    def _combination_of(self, frames: Frames) -> "_Combination":
        key = tuple(layout.key for layout, _ in frames)
        if key not in self._combinations:
            if len(self._combinations) >= _MOST_KEPT:
                self._forget_oldest()
            self._combinations[key] = _Combination(self._model, self._loaded, [layout for layout, _ in frames], key)
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
        """Frames to the device, once for all parts of a run, and the images `start` .. of them into the input."""
        assert self._memory is not None
        cuda, stream = self._loaded.device.cuda, self._loaded.device.stream
        if start == 0:
            cuda.memcpy_htod_async(self._memory.device, self._memory.host[: combination.nbytes], stream)
        addresses = [self._memory.device, *combination.tables(start), self._table, self._loaded.input_address]
        self._loaded.enqueue(combination.launch, count, [int(address) for address in addresses])


class _Combination:
    """Frames of certain shapes in a certain order: their tables on the device and the launch that reads them."""

    def __init__(
        self, model: ImageInput, loaded: LoadedPlan, layouts: Sequence[FrameLayout], key: tuple[object, ...]
    ) -> None:
        tables = tables_of(layouts)
        self.key = key
        self.images = sum(layout.images for layout in layouts)
        self.offsets, self.nbytes = tables.offsets, tables.nbytes
        self.launch: Launch = preprocessing_launch(model, loaded.plan.architecture, tables, loaded.plan.input)
        self._allocations = [loaded.device.cuda.to_device(each) for each in (tables.geometries, tables.spans)]
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
