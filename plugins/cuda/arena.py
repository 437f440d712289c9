"""Device memory for a number of images, and page-locked host memory for their transfer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.plugins.cuda.device import DeviceContext


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
