"""A host module in memory: loads the compiler's output and launches its kernel, with the structs of runtime/abi.h."""

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from edgemeta.model.errors import EdgemetaError

_ERROR_BYTES = 1024


class EmulationError(EdgemetaError):
    """A kernel did something that is an error on a GPU; the text names thread, action and place."""


class _Object(Structure):
    _fields_: ClassVar = [("name", c_char_p), ("address", c_void_p), ("bytes", c_uint64), ("is_writable", c_int32)]


class _Request(Structure):
    _fields_: ClassVar = [
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("object_count", c_uint32),
        ("objects", POINTER(_Object)),
        ("parameters", POINTER(c_void_p)),
        ("order", c_int64),
        ("poison", c_uint32),
        ("error_bytes", c_uint32),
        ("error", c_char_p),
        ("program_counter", c_uint64),
    ]


@dataclass(frozen=True)
class Object:
    """A piece of memory that a kernel gets a pointer to."""

    name: str
    address: int
    bytes: int
    is_writable: bool


class Module:
    """A loaded module. It has one machine: launches must not overlap in time."""

    def __init__(self, image: bytes) -> None:
        handle, name = tempfile.mkstemp(suffix=".so", dir=_folder())  # its own: dlopen tells libraries by name
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        self._path = name
        self._library = ctypes.CDLL(name)
        self._library.emulation_barriers.restype = c_uint64

    @property
    def static_shared_bytes(self) -> int:
        """Bytes of the shared arrays with a fixed size."""
        return int(self._library.emulation_static_shared_bytes())

    @property
    def barriers(self) -> int:
        """Number of `__syncthreads` executed by all blocks of the last launch."""
        return int(self._library.emulation_barriers())

    def launch(
        self,
        entry: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[Object],
        order: int = 0,
        poison: int = 0xA5,
        numbers: Sequence[int] = (),
    ) -> None:
        """Run all blocks. order and poison are as in runtime/abi.h, numbers: int parameters after the pointers.

        Raises EmulationError.
        """
        objects = (_Object * len(arguments))(
            *(_Object(each.name.encode(), each.address, each.bytes, each.is_writable) for each in arguments)
        )
        pointers = [c_void_p(each.address) for each in arguments]
        values = [*pointers, *(c_int32(number) for number in numbers)]
        parameters = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        request = _Request(
            grid=grid,
            block=block,
            shared_bytes=shared_bytes,
            object_count=len(arguments),
            objects=objects,
            parameters=parameters,
            order=order,
            poison=poison,
            error_bytes=_ERROR_BYTES,
            error=ctypes.cast(error, c_char_p),
        )
        kernel = ctypes.c_char.in_dll(self._library, f"emulation_kernel_{entry}")
        if self._library.emulation_launch(ctypes.byref(kernel), ctypes.byref(request)) != 0:
            text = error.value.decode("utf-8", "replace")
            place = self._place(request.program_counter) if request.program_counter else ""
            raise EmulationError(f"{text}{place}")

    def _place(self, offset: int) -> str:
        """File and line of an instruction of the module, from its debug information."""
        command = ["addr2line", "-e", self._path, hex(offset - 1)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        path, _, line = done.stdout.strip().partition(":")
        return f" ({Path(path).parent.name}/{Path(path).name}:{line.split()[0]})"


@cache
def _folder() -> str:
    """Where modules lie for a debugger to read, until the process ends."""
    folder = tempfile.mkdtemp(prefix="edgemeta-emulation-")
    atexit.register(shutil.rmtree, folder)
    return folder


@cache
def load(image: bytes) -> Module:
    """A module, loaded once for equal images; it stays loaded."""
    return Module(image)
