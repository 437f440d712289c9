"""Loads the C++ library and declares its C interface (`src/edgemeta_cpu.h`) for ctypes."""

import ctypes
import os
from ctypes import c_char_p, c_int32, c_int64, c_void_p
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.kernels.lowering.plan_bytes import VERSION

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

X86_ISAS = ("avx2", "avxvnni", "avx512vnni")
ARM_ISAS = ("neon", "dotprod", "i8mm")
"""Instruction sets of one kind of processor, slowest first; each has those before it, too."""

ISA_NAMES = ("auto", "portable", *X86_ISAS, *ARM_ISAS)
"""Instruction sets by their number in the library."""

FORMS = ("fastest", "plain", "packed", "bytes", "planes", "winograd")
"""Forms of a convolution (docs/cpu-kernels.md) by their number in the library."""

_ERROR_BYTES = 256


class LibraryError(Exception):
    """The library is missing or of another version, or a call failed; one sentence."""


_SIGNATURES: dict[str, tuple[object, tuple[object, ...] | None]] = {
    "em_best_isa": (c_int32, ()),
    "em_open": (c_void_p, (c_int32, c_int32, c_char_p)),
    "em_close": (None, (c_void_p,)),
    "em_isa": (c_int32, (c_void_p,)),
    "em_load": (c_int32, (c_void_p, c_char_p, c_int64, c_char_p)),
    "em_bytes": (c_int64, (c_void_p, c_int32)),
    "em_run": (None, None),  # called by Program.bind alone, whose arguments are of C types already
    "em_steps": (c_char_p, (c_void_p,)),
    "em_profile": (None, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "em_quantize": (None, (c_int32, c_void_p, c_int64, c_int32, c_void_p, c_void_p)),
    "em_dequantize": (None, (c_int32, c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p)),
    "em_resizer_open": (c_void_p, (c_int32, c_char_p, c_int64, c_char_p)),
    "em_resizer_close": (None, (c_void_p,)),
    "em_resizer_run": (None, (c_void_p, c_void_p, c_int64, c_void_p)),
}


def load_library(resource: "Traversable", version_function: str, expected: int) -> ctypes.CDLL:
    """Load a library of the package. Raises LibraryError if it is missing, cannot be loaded or has another version."""
    if not resource.is_file():
        raise LibraryError(f"the C++ library {resource} is missing: reinstall the package")
    try:
        with as_file(resource) as path:
            loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"{resource.name} cannot be loaded: {error}") from error
    version = getattr(loaded, version_function)()
    if version != expected:
        raise LibraryError(
            f"{resource.name} has interface version {version}, expected {expected}: reinstall the package"
        )
    return loaded


@cache
def library() -> ctypes.CDLL:
    """Load the library, once. Raises LibraryError if it is missing, cannot be loaded or has another version.

    The environment variable EDGEMETA_CPU_LIBRARY selects another build, such as the tests' build with sanitizers.
    """
    other = os.environ.get("EDGEMETA_CPU_LIBRARY")
    resource = Path(other) if other else files("edgemeta.kernels.cpu") / "libedgemeta_cpu.so"
    loaded = load_library(resource, "em_abi_version", VERSION)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def best_isa() -> str:
    """Name of the fastest supported instruction set of this machine. Raises LibraryError as `library`."""
    return ISA_NAMES[library().em_best_isa()]


def supported_isas() -> tuple[str, ...]:
    """Names of all instruction sets that this machine supports, slowest first. Raises LibraryError as `library`."""
    best = best_isa()
    kind = next((isas for isas in (X86_ISAS, ARM_ISAS) if best in isas), ())
    return ("portable", *(isa for isa in kind if kind.index(isa) <= kind.index(best)))


def error_buffer() -> ctypes.Array[ctypes.c_char]:
    """Buffer for the error text of a failing call."""
    return ctypes.create_string_buffer(_ERROR_BYTES)


def error_text(error: ctypes.Array[ctypes.c_char]) -> str:
    """The error text that a failed call wrote."""
    return error.value.decode("utf-8", "replace")
