"""One image through a Xilinx AXI DMA in direct register mode (PG021): buffer to stream, stream to buffer.

Both channels are programmed for a whole image: first the one that writes results to memory, so that no word waits for
it, then the one that reads the image. The result is there when the first one reports "interrupt on complete".
"""

import time
from collections.abc import Callable
from typing import Protocol

from edgemeta.kernels.fpga.generate.network import FpgaError

READ_CONTROL, READ_STATUS, READ_ADDRESS, READ_ADDRESS_HIGH, READ_LENGTH = 0x00, 0x04, 0x18, 0x1C, 0x28
WRITE_CONTROL, WRITE_STATUS, WRITE_ADDRESS, WRITE_ADDRESS_HIGH, WRITE_LENGTH = 0x30, 0x34, 0x48, 0x4C, 0x58
"""MM2S, which reads memory, and S2MM, which writes it."""

RUN, RESET, INTERRUPT_ENABLE = 1 << 0, 1 << 2, 1 << 12
HALTED, ERRORS, COMPLETE = 1 << 0, 0b111 << 4, 1 << 12

Wait = Callable[[float], None]
"""Returns when something may have changed, at the latest at a time of `time.monotonic`."""


class Words(Protocol):
    """Registers of 32 bits."""

    def read(self, address: int) -> int:
        """The word at a byte address."""
        ...

    def write(self, address: int, value: int) -> None:
        """Write it."""
        ...


def transfer(dma: Words, source: tuple[int, int], target: tuple[int, int], wait: Wait, deadline: float) -> None:
    """Move `source` to the stream and the stream's answer to `target`, each (physical address, bytes).

    Raises FpgaError for an error that the DMA reports, and at the deadline, a time of `time.monotonic`; the DMA is then
    reset, so that it no longer writes to the buffer.
    """
    for control in (READ_CONTROL, WRITE_CONTROL):
        dma.write(control, RUN | INTERRUPT_ENABLE)
    dma.write(WRITE_STATUS, COMPLETE)
    dma.write(READ_STATUS, COMPLETE)
    try:
        _start(dma, WRITE_ADDRESS, WRITE_ADDRESS_HIGH, WRITE_LENGTH, target)
        _start(dma, READ_ADDRESS, READ_ADDRESS_HIGH, READ_LENGTH, source)
        while True:
            status = dma.read(WRITE_STATUS)
            failed = (status | dma.read(READ_STATUS)) & ERRORS
            if failed:
                raise FpgaError(f"the DMA reports an error, status {failed:#x}")
            if status & COMPLETE:
                return
            if time.monotonic() >= deadline:
                raise FpgaError("the device hangs: no result in the time given")
            wait(deadline)
    except FpgaError:
        reset(dma)
        raise


def reset(dma: Words) -> None:
    """Reset both channels; the reset of one resets the other, too."""
    dma.write(READ_CONTROL, RESET)


def _start(dma: Words, low: int, high: int, length: int, place: tuple[int, int]) -> None:
    """Writing the length starts the channel."""
    address, count = place
    dma.write(low, address & 0xFFFFFFFF)
    dma.write(high, address >> 32)
    dma.write(length, count)
