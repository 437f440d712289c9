"""A board without a board: an AXI DMA and buffers as objects, in front of the network's Verilator model or nothing."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgemeta.plugins.fpga import axi_dma as dma

Stream = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""From the bytes of an image to those of its outputs."""


class FakeBuffer:
    """Memory at a physical address; `data` is what the processor sees."""

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.data = np.zeros(size, np.uint8)


class FakeDma:
    """Direct register mode: a channel starts with its length, and moves words only while it runs.

    hangs: results never arrive. error: status bits that it reports instead of a result.
    """

    def __init__(self, stream: Stream, buffers: list[FakeBuffer], hangs: bool = False, error: int = 0) -> None:
        self._stream, self._buffers, self._hangs, self._error = stream, buffers, hangs, error
        self.registers: dict[int, int] = {}
        self.log: list[tuple[int, int]] = []
        self._reset()

    def read(self, address: int) -> int:
        return self.registers.get(address, 0)

    def write(self, address: int, value: int) -> None:
        self.log.append((address, value))
        if address in (dma.READ_CONTROL, dma.WRITE_CONTROL) and value & dma.RESET:
            self._reset()
            return
        if address in (dma.READ_STATUS, dma.WRITE_STATUS):
            self.registers[address] &= ~(value & dma.COMPLETE)
            return
        self.registers[address] = value
        if address in (dma.READ_CONTROL, dma.WRITE_CONTROL) and value & dma.RUN:
            self.registers[address + 4] &= ~dma.HALTED
        if address in (dma.READ_LENGTH, dma.WRITE_LENGTH):
            assert self.registers[dma.READ_CONTROL if address == dma.READ_LENGTH else dma.WRITE_CONTROL] & dma.RUN
            self._move()

    def _reset(self) -> None:
        self.registers = {dma.READ_STATUS: dma.HALTED, dma.WRITE_STATUS: dma.HALTED}

    def _move(self) -> None:
        if not {dma.READ_LENGTH, dma.WRITE_LENGTH} <= self.registers.keys() or self._hangs:
            return
        if self._error:
            self.registers[dma.WRITE_STATUS] |= self._error
            return
        source = self._memory(dma.READ_ADDRESS, dma.READ_ADDRESS_HIGH, self.registers.pop(dma.READ_LENGTH))
        target = self._memory(dma.WRITE_ADDRESS, dma.WRITE_ADDRESS_HIGH, self.registers.pop(dma.WRITE_LENGTH))
        target[:] = self._stream(source)
        for status in (dma.READ_STATUS, dma.WRITE_STATUS):
            self.registers[status] |= dma.COMPLETE

    def _memory(self, low: int, high: int, count: int) -> NDArray[np.uint8]:
        address = self.registers[high] << 32 | self.registers[low]
        buffer = next(each for each in self._buffers if each.address <= address < each.address + each.data.size)
        at = address - buffer.address
        return buffer.data[at : at + count]
