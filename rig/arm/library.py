"""The C++ library on an emulated processor, in place of the one that `kernels.cpu.library.library` loads.

Every call is sent to `runner.cpp`, which qemu runs: the tests' models, arrays and expectations stay on this machine.
"""
# ruff: noqa: D102  (edgemeta_cpu.h describes the functions)

import ctypes
import math
import struct
import subprocess
from collections.abc import Sequence
from typing import Any

_ERROR_BYTES = 256


class EmulatedLibrary:
    """Functions of `edgemeta_cpu.h` with the arguments that ctypes would be given, executed by a runner's process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._resizers: dict[int, tuple[int, ...]] = {}  # the numbers that the bytes begin with
        self._sizes: dict[int, list[int]] = {}  # of a program's input and outputs: asked for once, as a user does

    def stop(self) -> None:
        """End the runner, which has come to the end of its input."""
        self._process.communicate()

    def em_best_isa(self) -> int:
        return self._number("em_best_isa")

    def em_open(self, isa: int, threads: int, error: Any) -> int | None:
        return self._number("em_open", struct.pack("<ii", isa, threads), error) or None

    def em_close(self, handle: int) -> None:
        self._sizes.pop(handle, None)
        self._call("em_close", handle)

    def em_isa(self, handle: int) -> int:
        return self._number("em_isa", handle)

    def em_load(self, handle: int, plan: bytes, _length: int, error: Any) -> int:
        return self._number("em_load", struct.pack("<q", handle) + plan, error)

    def em_steps(self, handle: int) -> bytes:
        return self._call("em_steps", handle)

    def em_run(self, program: ctypes.c_void_p, count: ctypes.c_int32, address: ctypes.c_void_p, outputs: Any) -> None:
        handle, images = program.value or 0, count.value
        if handle not in self._sizes:
            ask = [struct.pack("<qi", handle, i) for i in range(-1, len(outputs))]
            self._sizes[handle] = [self._number("em_bytes", each) for each in ask]
        sizes = [images * each for each in self._sizes[handle]]
        batch = ctypes.string_at(address, sizes[0])
        found = self._call(
            "em_run", struct.pack(f"<qii{len(outputs)}q", handle, images, len(outputs), *sizes[1:]) + batch
        )
        for output, size in zip(outputs, sizes[1:], strict=True):
            ctypes.memmove(output, found, size)
            found = found[size:]

    def em_resizer_open(self, isa: int, resize: bytes, _length: int, error: Any) -> int | None:
        handle = self._number("em_resizer_open", struct.pack("<i", isa) + resize, error)
        self._resizers[handle] = struct.unpack_from("<8i", resize)
        return handle or None

    def em_resizer_close(self, handle: int) -> None:
        if self._process.poll() is None:
            self._call("em_resizer_close", handle)

    def em_resizer_run(self, handle: int, frame: int, row_bytes: int, output: int) -> None:
        channels, top, left, height, width, *shape = self._resizers[handle]
        last = (top + height - 1) * row_bytes
        first, target = min(last, 0), math.prod(shape)
        pixels = ctypes.string_at(frame + first, abs(last) + (left + width) * channels)
        found = self._call("em_resizer_run", struct.pack("<qqqq", handle, -first, row_bytes, target) + pixels)
        ctypes.memmove(output, found, target)

    def _number(self, function: str, arguments: bytes | int = b"", error: Any = None) -> int:
        result: int = struct.unpack("<q", self._call(function, arguments, error))[0]
        return result

    def _call(self, function: str, arguments: bytes | int = b"", error: Any = None) -> bytes:
        """What a function returns; arguments: their bytes, or a handle alone."""
        assert self._process.stdin is not None
        sent = struct.pack("<q", arguments) if isinstance(arguments, int) else arguments
        self._process.stdin.write(struct.pack("<16sq", function.encode(), len(sent)) + sent)
        self._process.stdin.flush()
        text = self._read(_ERROR_BYTES)
        if error is not None:
            error.raw = text
        return self._read(struct.unpack("<q", self._read(8))[0])

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        content = self._process.stdout.read(size)
        assert len(content) == size, f"the runner ended with code {self._process.wait()}"
        return content
