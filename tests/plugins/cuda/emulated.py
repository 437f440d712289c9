"""Access of tests to the emulated driver: live objects, call counts, and injected errors."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("contexts", "modules", "streams", "events", "graphs", "allocations", "device_bytes", "host_bytes")


class Driver:
    """The library, loaded before PyCUDA looks for libcuda.so.1; it has no device but inside `device`."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        self._library.emu_live.restype = self._library.emu_calls.restype = ctypes.c_long

    def live(self) -> dict[str, int]:
        """Number of live objects by kind, without zeros."""
        held = {kind: int(self._library.emu_live(kind.encode())) for kind in KINDS}
        return {kind: count for kind, count in held.items() if count}

    def held_bytes(self) -> int:
        """Bytes of device and page-locked memory."""
        return sum(self.live().get(kind, 0) for kind in ("device_bytes", "host_bytes"))

    def calls(self, *functions: str) -> int:
        """How often functions of the driver were called since it was loaded."""
        return sum(int(self._library.emu_calls(function.encode())) for function in functions)

    def fail(self, function: str, result: int, nth: int = 1, times: int = 2) -> None:
        """Let the nth call from now of a function give an error, and those after it, `times` in all.

        Twice, since PyCUDA asks again for memory after Python has collected its garbage.
        """
        for call in range(nth, nth + times):
            self._library.emu_fail(function.encode(), call, result)

    def forget(self) -> None:
        """Discard injected errors that have not occurred."""
        self._library.emu_forget()

    @contextmanager
    def device(self, major: int, minor: int) -> Iterator[None]:
        """One device of a compute capability; none before and after."""
        self._library.emu_set_device(1, major, minor)
        try:
            yield
        finally:
            self._library.emu_set_device(0, 0, 0)
