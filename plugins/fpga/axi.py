"""An accelerator in programmable logic as a device: registers by UIO, images and logits by AXI DMA and u-dma-buf."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.registers import CONTROL
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Batch
from edgemeta.plugins.fpga.axi_dma import Wait, Words, reset, transfer

_PAUSE = 50e-6
"""Seconds between two looks at the status, where no interrupt is waited for."""


class Buffer(Protocol):
    """Memory that the device reaches at the physical `address`."""

    address: int
    data: NDArray[np.uint8]


class AxiDevice:
    """As `session.Device`. One image at a time; `close` is called with the accelerator idle and reset.

    wait: for the DMA's interrupt, or None to look again and again. on_close: frees what was opened.
    """

    def __init__(
        self,
        model: Model,
        registers: Words,
        dma: Words,
        source: Buffer,
        target: Buffer,
        wait: Wait | None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._registers, self._dma = registers, dma
        self._source, self._target = source, target
        self._wait = wait or _pause
        self._on_close: Callable[[], None] | None = on_close
        self._kind = model.output_types[0]
        self._in_bytes = int(np.prod(model.input.shape))
        self._out_bytes = int(np.prod(self._kind.shape)) * (4 if self._kind.bits == 32 else 1)

    def prepare(self) -> None:
        """Reset the accelerator. Raises FpgaError if the buffers are too small for the model's images."""
        for buffer, count in ((self._source, self._in_bytes), (self._target, self._out_bytes)):
            if buffer.data.size < count:
                raise FpgaError(f"a DMA buffer has {buffer.data.size} bytes, an image needs {count}")
        reset(self._dma)
        self._registers.write(CONTROL, 1)

    def run(self, batch: Batch, *, deadline: float) -> NDArray[Any]:
        """As `session.Device.run`."""
        outputs = np.empty((len(batch), self._out_bytes), np.uint8)
        for image, output in zip(batch, outputs, strict=True):
            self._source.data[: self._in_bytes] = image.view(np.uint8).ravel()
            source, target = (self._source.address, self._in_bytes), (self._target.address, self._out_bytes)
            transfer(self._dma, source, target, self._wait, deadline)
            output[:] = self._target.data[: self._out_bytes]
        return outputs.view(self._kind.dtype).reshape(len(batch), *self._kind.shape)

    def read(self, address: int) -> int:
        """A register of the accelerator."""
        return self._registers.read(address)

    def close(self) -> None:
        """Reset DMA and accelerator, then free what was opened; a second call does nothing."""
        if self._on_close is not None:
            reset(self._dma)
            self._registers.write(CONTROL, 1)
            self._on_close()
            self._on_close = None


def _pause(deadline: float) -> None:
    time.sleep(max(0.0, min(_PAUSE, deadline - time.monotonic())))
