"""Linux user-space I/O: registers of a UIO device, its interrupt, and buffers of the u-dma-buf driver."""

import mmap
import os
import select
import struct
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.network import FpgaError

DEVICES, CLASSES = Path("/dev"), Path("/sys/class")
_WORD = struct.Struct("=I")


class UioDevice:
    """Registers of /dev/NAME, mapped; the interrupt is waited for on the same file. Raises FpgaError if it cannot."""

    def __init__(self, name: str, devices: Path = DEVICES, classes: Path = CLASSES) -> None:
        size = _number(classes / "uio" / name / "maps" / "map0" / "size")
        self._file = _open(devices / name)
        self._words = np.frombuffer(_mapped(self._file, size, devices / name), np.uint32)

    def read(self, address: int) -> int:
        """The 32-bit word at a byte address, in one access."""
        return int(self._words[address // 4])

    def write(self, address: int, value: int) -> None:
        """Write it, in one access."""
        self._words[address // 4] = value

    def wait(self, deadline: float) -> None:
        """Until the next interrupt, or a time of `time.monotonic`."""
        os.write(self._file, _WORD.pack(1))  # unmasks it: the kernel masks it whenever it occurs
        left = deadline - time.monotonic()
        if left > 0 and select.select([self._file], [], [], left)[0]:
            os.read(self._file, _WORD.size)

    def close(self) -> None:
        """Close the file; the mapping goes with its last user."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._words = np.zeros(0, np.uint32)


class DmaBuffer:
    """Memory of /dev/NAME that the device reaches at `address`, mapped without a cache. Raises FpgaError."""

    def __init__(self, name: str, devices: Path = DEVICES, classes: Path = CLASSES) -> None:
        self.address = _number(classes / "u-dma-buf" / name / "phys_addr")
        size = _number(classes / "u-dma-buf" / name / "size")
        file = _open(devices / name)
        try:
            self.data: NDArray[np.uint8] = np.frombuffer(_mapped(file, size, devices / name), np.uint8)
        finally:
            os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_SYNC)
    except OSError as error:
        raise FpgaError(f"{path}: {error.strerror}") from error


def _mapped(file: int, size: int, path: Path) -> mmap.mmap:
    try:
        return mmap.mmap(file, size)
    except (OSError, ValueError) as error:
        raise FpgaError(f"{path} cannot be mapped: {error}") from error


def _number(path: Path) -> int:
    """A number that the kernel states in a file, decimal or 0x..."""
    try:
        return int(path.read_text("ascii").strip(), 0)
    except OSError as error:
        raise FpgaError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FpgaError(f"{path} holds no number") from error
