"""Global memory: objects with guards between them, in an address space where one object crosses a multiple of 2**32."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.words import ExecutionError, Flags, Wide

_ALIGNMENT = 256  # of every pointer that cudaMalloc gives
_GUARD = 4096
_READABLE, _WRITABLE = 1, 2
_FAR = 0x7 << 32


@dataclass(frozen=True)
class Region:
    """A piece of memory that a kernel gets a pointer to."""

    name: str
    bytes: int
    is_writable: bool


class GlobalMemory:
    """The memory of a launch plan. addresses: of the regions, in their order.

    is_written_by_phases: by a kernel whose blocks also read what other blocks have written.
    The largest region lies across a multiple of 2**32, so that an address whose carry is lost is noticed.
    """

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        starts, end = [], _GUARD
        for region in regions:
            starts.append(end)
            end += -(-(region.bytes + _GUARD) // _ALIGNMENT) * _ALIGNMENT
        self._data = np.zeros(end + _GUARD, np.uint8)
        self._rights = np.zeros(end + _GUARD, np.uint8)
        self.is_written_by_phases = False
        self._starts = starts
        for start, region in zip(starts, regions, strict=True):
            self._rights[start : start + region.bytes] = _READABLE | (_WRITABLE if region.is_writable else 0)
        largest = max(range(len(regions)), key=lambda n: regions[n].bytes)
        middle = starts[largest] + regions[largest].bytes // 2 // _ALIGNMENT * _ALIGNMENT
        self.base = _FAR - middle
        self.addresses = [self.base + start for start in starts]

    def content(self, number: int) -> NDArray[np.uint8]:
        """The bytes of a region, to read and write."""
        start = self._starts[number]
        return self._data[start : start + self.regions[number].bytes]

    def load(self, addresses: Wide, width: int, is_cached: bool = False) -> NDArray[np.uint8]:
        """Bytes [lanes, width]. Raises ExecutionError for an address outside all regions or that is not aligned.

        is_cached: through the cache for memory that nobody writes while the kernel runs.
        """
        places = self._places(addresses, width, _READABLE, "reads")
        if is_cached and self.is_written_by_phases and (self._rights[places] & _WRITABLE).any():
            raise ExecutionError("a thread reads memory that the kernel writes through the cache for constant memory")
        return self._data.reshape(-1, width)[places // width]

    def store(self, addresses: Wide, values: NDArray[np.uint8]) -> None:
        """Write bytes [lanes, width]. Raises ExecutionError as `load`, and for a region that is read-only."""
        width = values.shape[1]
        places = self._places(addresses, width, _WRITABLE, "writes")
        rows = self._data.reshape(-1, width)
        rows[places // width] = values
        if (rows[places // width] != values).any():
            raise ExecutionError("two threads write different values to one address of global memory at once")

    def _places(self, addresses: Wide, width: int, right: int, does: str) -> Wide:
        places = addresses - self.base
        good: Flags = (places >= 0) & (places <= len(self._data) - width)
        inside = np.where(good, places, 0)
        good &= (self._rights[inside] & self._rights[inside + width - 1] & right) != 0
        if not good.all():
            raise ExecutionError(self._outside(int(places[~good][0]), width, does))
        if (addresses % width).any():
            raise ExecutionError(f"a thread {does} {width} bytes at an address that is no multiple of {width}")
        return places

    def _outside(self, place: int, width: int, does: str) -> str:
        for start, region in zip(self._starts, self.regions, strict=True):
            if start - _GUARD // 2 <= place < start + region.bytes + _GUARD // 2:
                return f"a thread {does} {width} bytes at byte {place - start} of {region.name}, {region.bytes} bytes"
        return f"a thread {does} {width} bytes at {place + self.base:#x}, where no memory is"
