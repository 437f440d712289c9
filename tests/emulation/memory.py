"""Device memory as the emulation models it: objects with guards round them, and buffers filled as the contract says."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Counter, FloatType
from tests.emulation.module import EmulationError, Object

_ALIGNMENT = 256  # of every pointer that cudaMalloc gives
_GUARD = 4096
_CANARY = 0x5C


def _forbid(guard: NDArray[np.uint8]) -> None:
    """Let AddressSanitizer, where it is loaded, refuse every access to a guard."""
    poison = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)
    if poison is not None:
        poison(ctypes.c_void_p(guard.ctypes.data), ctypes.c_size_t(guard.nbytes))


class Memory:
    """`size` bytes, aligned as cudaMalloc does, between two guards."""

    def __init__(self, name: str, size: int, is_writable: bool) -> None:
        self._arena = np.full(size + 2 * _GUARD + _ALIGNMENT, _CANARY, np.uint8)
        start = _GUARD + -(self._arena.ctypes.data + _GUARD) % _ALIGNMENT
        self.bytes = self._arena[start : start + size]
        self._guards = (self._arena[:start], self._arena[start + size :])
        for guard in self._guards:
            _forbid(guard)
        self.object = Object(name, self.bytes.ctypes.data, size, is_writable)

    def check_guards(self) -> None:
        """Raise EmulationError if a kernel wrote outside the object."""
        for guard, side in zip(self._guards, ("before", "after the end of"), strict=True):
            if (guard != _CANARY).any():
                raise EmulationError(f"a kernel wrote {side} {self.object.name}")


class ConstantMemory(Memory):
    """A constant's bytes."""

    def __init__(self, constant: Constant) -> None:
        super().__init__(constant.name, constant.data.nbytes, is_writable=False)
        self.bytes[:] = np.ascontiguousarray(constant.data).reshape(-1).view(np.uint8)

    def check(self) -> None:
        """Raise EmulationError if a kernel wrote outside it."""
        self.check_guards()


class CounterMemory(Memory):
    """A counter's word, 0 at first."""

    def __init__(self, counter: Counter) -> None:
        super().__init__(counter.name, 4, is_writable=True)
        self.bytes[:] = 0

    def check(self) -> None:
        """Raise EmulationError if a kernel wrote outside it."""
        self.check_guards()


class BufferMemory(Memory):
    """The images of one buffer, zero point in the ring.

    The inside is filled with garbage instead of the zero point: kernels may count on the ring only, and a value that is
    read before it is written then shows.
    """

    def __init__(self, buffer: Buffer, images: int, garbage: np.random.Generator) -> None:
        super().__init__(buffer.name, images * buffer.image_bytes, is_writable=True)
        self._buffer = buffer
        self.bytes[:] = buffer.fill
        self.array: NDArray[Any] = self.bytes.view(buffer.kind.dtype).reshape(images, *buffer.shape)
        inside = self.array[(slice(None), *self._inside())]
        if isinstance(buffer.kind, FloatType):
            inside[..., : buffer.kind.shape[2]] = np.nan
        else:
            inside[:] = np.frombuffer(garbage.bytes(inside.nbytes), inside.dtype).reshape(inside.shape)

    def check(self) -> None:
        """Raise EmulationError if a kernel wrote outside the buffer or into its ring."""
        self.check_guards()
        if any(self._buffer.ring) and not self._buffer.packed:
            is_ring = np.ones(self._buffer.shape[:2], bool)
            is_ring[self._inside()] = False
            if (self.array[:, is_ring].view(np.uint8) != self._buffer.fill).any():
                raise EmulationError(f"a kernel wrote into the ring of {self.object.name}")

    def _inside(self) -> tuple[slice, slice]:
        if self._buffer.packed:
            return slice(None), slice(None)
        height, width, _ = self._buffer.kind.shape
        top, left, _, _ = self._buffer.ring
        return slice(top, top + height), slice(left, left + width)
