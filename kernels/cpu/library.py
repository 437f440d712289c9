"""Loads the C++ library and declares its C interface (`src/edgemeta_cpu.h`) for ctypes."""

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_void_p
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

X86_ISAS = ("avx2", "avxvnni", "avx512vnni")
ARM_ISAS = ("neon", "dotprod", "i8mm")
"""Instruction sets of one kind of processor, slowest first; each has those before it, too."""

ISA_NAMES = ("auto", "portable", *X86_ISAS, *ARM_ISAS)
"""Instruction sets by their number in the library."""

FORMS = ("fastest", "plain", "packed", "bytes", "planes", "winograd")
"""Forms of a convolution (docs/low-bits.md) by their number in the library."""

_ABI_VERSION = 10
_ERROR_BYTES = 256


class LibraryError(Exception):
    """The library is missing or of another version, or a call failed; one sentence."""


class TensorStruct(Structure):
    """`em_tensor`."""

    _fields_ = (
        ("height", c_int32),
        ("width", c_int32),
        ("channels", c_int32),
        ("is_signed", c_int32),
        ("zero_point", c_int32),
        ("lo", c_int32),
        ("hi", c_int32),
    )


class RequantizeStruct(Structure):
    """`em_requantize`; the arrays must stay alive during the call."""

    _fields_ = (
        ("kind", c_int32),
        ("multiplier", c_void_p),
        ("shift", c_void_p),
        ("lo", c_int32),
        ("hi", c_int32),
        ("table", c_void_p),
    )


class WindowStruct(Structure):
    """`em_window`."""

    _fields_ = (
        ("kernel_height", c_int32),
        ("kernel_width", c_int32),
        ("stride_y", c_int32),
        ("stride_x", c_int32),
        ("top", c_int32),
        ("left", c_int32),
        ("bottom", c_int32),
        ("right", c_int32),
        ("dilation_y", c_int32),
        ("dilation_x", c_int32),
    )


class NeighboursStruct(Structure):
    """`em_neighbours`; the arrays must stay alive during the call."""

    _fields_ = (("lower", c_void_p), ("upper", c_void_p), ("weight", c_void_p))


class AxisStruct(Structure):
    """`em_axis`; the arrays must stay alive during the call."""

    _fields_ = (
        ("size", c_int32),
        ("start", c_void_p),
        ("count", c_void_p),
        ("weights", c_void_p),
        ("total", c_int32),
    )


class ResizeStruct(Structure):
    """`em_resize`; the arrays must stay alive during the call."""

    _fields_ = (
        ("rows", AxisStruct),
        ("columns", AxisStruct),
        ("frame_channels", c_int32),
        ("top", c_int32),
        ("left", c_int32),
        ("height", c_int32),
        ("width", c_int32),
        ("channels", c_int32),
        ("inner_top", c_int32),
        ("inner_left", c_int32),
        ("colours", c_void_p),
        ("table", c_void_p),
        ("fill", c_void_p),
    )


_LAYER = (c_void_p, c_char_p, c_int32, c_int32)  # program, name, input, output
_SIGNATURES: dict[str, tuple[object, tuple[object, ...] | None]] = {
    "em_best_isa": (c_int32, ()),
    "em_open": (c_void_p, (c_int32, c_int32, c_char_p)),
    "em_close": (None, (c_void_p,)),
    "em_isa": (c_int32, (c_void_p,)),
    "em_prefer": (None, (c_void_p, c_int32)),
    "em_add_tensor": (c_int32, (c_void_p, POINTER(TensorStruct), c_char_p)),
    "em_set_bases": (c_int32, (c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_char_p)),
    "em_add_conv": (
        c_int32,
        (
            *_LAYER,
            POINTER(WindowStruct),
            *(c_int32, c_int32, c_int32, c_void_p, c_void_p),  # outputs, depth, groups, weights, bias
            POINTER(RequantizeStruct),
            c_char_p,
        ),
    ),
    "em_add_sum": (c_int32, (c_void_p, c_char_p, *[c_int32] * 8, c_char_p)),
    "em_add_clamp": (c_int32, (*_LAYER, c_int32, c_int32, c_char_p)),
    "em_add_rescale": (c_int32, (*_LAYER, c_int32, POINTER(RequantizeStruct), c_char_p)),
    "em_add_max_pool": (c_int32, (*_LAYER, POINTER(WindowStruct), c_char_p)),
    "em_add_average_pool": (
        c_int32,
        (*_LAYER, POINTER(WindowStruct), c_int32, POINTER(RequantizeStruct), c_char_p),
    ),
    "em_add_concat": (c_int32, (c_void_p, c_char_p, c_void_p, c_int32, c_int32, c_char_p)),
    "em_add_upsample": (c_int32, (*_LAYER, c_int32, c_int32, c_char_p)),
    "em_add_lookup": (c_int32, (*_LAYER, c_int32, c_void_p, c_char_p)),
    "em_add_product": (
        c_int32,
        (c_void_p, c_char_p, c_int32, c_int32, c_int32, c_int32, POINTER(RequantizeStruct), c_char_p),
    ),
    "em_add_pad": (c_int32, (*_LAYER, *[c_int32] * 4, c_char_p)),
    "em_add_slice": (c_int32, (*_LAYER, *[c_int32] * 6, c_char_p)),
    "em_add_channel_shuffle": (c_int32, (*_LAYER, c_int32, c_char_p)),
    "em_add_resize_bilinear": (
        c_int32,
        (*_LAYER, POINTER(NeighboursStruct), POINTER(NeighboursStruct), c_char_p),
    ),
    "em_seal": (c_int32, (c_void_p, c_int32, c_void_p, c_int32, c_char_p)),
    "em_run": (None, None),  # called by Program.bind alone, whose arguments are of C types already
    "em_steps": (c_int32, (c_void_p,)),
    "em_step_name": (c_char_p, (c_void_p, c_int32)),
    "em_step_form": (c_char_p, (c_void_p, c_int32)),
    "em_step_weight_bytes": (c_int64, (c_void_p, c_int32)),
    "em_step_predicted": (c_int32, (c_void_p, c_int32)),
    "em_profile": (None, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "em_quantize": (None, (c_int32, c_void_p, c_int64, c_int32, c_void_p, c_void_p)),
    "em_dequantize": (None, (c_int32, c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p)),
    "em_resizer_open": (c_void_p, (c_int32, POINTER(ResizeStruct), c_char_p)),
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
    loaded = load_library(resource, "em_abi_version", _ABI_VERSION)
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
