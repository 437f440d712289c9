"""Loads the simulator's C++ library and calls it (`src/edgemeta_simulate.h`) through ctypes."""

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import LibraryError, load_library

ISA_NAMES = ("auto", "portable", "avx2", "avx512")
"""Instruction sets by their number in the library, slowest first."""

ROUNDINGS = ("nearest_even", "half_up", "towards_zero", "stochastic")
BINS = 1 << 15
"""Of a histogram."""
BEYOND = ("saturate", "infinity", "nan")
"""Names by their number in the library."""

_VERSION = 3


class _Rounding(Structure):
    _fields_ = (("mantissa", c_int32), ("quantum", c_int32), ("rounding", c_int32), ("beyond", c_int32))


class _Places(Structure):
    _fields_ = (
        ("seed", c_uint64),
        ("step", c_uint32),
        ("tensor", c_uint32),
        ("row", c_int64),
        ("first", c_int64),
        ("stride", c_int64),
    )


class _Scaled(Structure):
    _fields_ = (
        ("outer", c_int64),
        ("channels", c_int64),
        ("inner", c_int64),
        ("block", c_int64),
        ("scale", c_void_p),
        ("lowest", c_void_p),
        ("highest", c_void_p),
    )


@dataclass(frozen=True)
class Places:
    """Where an array lies in the tensor of the whole batch: rows of `row` elements, the first one number `first`."""

    seed: int
    step: int
    tensor: int
    row: int
    first: int = 0
    stride: int = 1
    """From one row's number to the next."""


@dataclass(frozen=True)
class Rounding:
    """A grid of multiples of a power of two (toolchain/number_formats/grid.py) and how to round to it.

    scale: float32 [channels] or None for 1. lowest, highest: float32 [channels], of the values divided by the scale.
    block: channels side by side that share a scale, float32 [outer, blocks, inner]; limits are then [1]; 0: none do.
    rounding, beyond: of ROUNDINGS and BEYOND.
    """

    mantissa: int
    quantum: int
    rounding: str
    beyond: str
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]
    scale: NDArray[np.float32] | None = None
    block: int = 0


@cache
def library() -> ctypes.CDLL:
    """Load the library, once. Raises LibraryError if it is missing, cannot be loaded or has another version.

    The environment variable EDGEMETA_SIMULATE_LIBRARY selects another build, such as the tests' build with sanitizers.
    """
    other = os.environ.get("EDGEMETA_SIMULATE_LIBRARY")
    resource = Path(other) if other else files("edgemeta.kernels.simulate") / "libedgemeta_simulate.so"
    loaded = load_library(resource, "em_simulate_version", _VERSION)
    loaded.em_simulate_round.argtypes = (
        *(c_int32, c_int32, c_void_p, c_void_p, c_void_p),
        *(POINTER(_Scaled), POINTER(_Rounding), POINTER(_Places)),
    )
    loaded.em_simulate_keep.argtypes = (c_int32, c_int32, c_void_p, c_void_p, c_void_p, c_int64)
    loaded.em_simulate_range.argtypes = (c_int32, c_int32, c_void_p, c_int64, c_void_p)
    loaded.em_simulate_histogram.argtypes = (c_int32, c_void_p, c_int64, c_void_p)
    loaded.em_simulate_histogram.restype = None
    loaded.em_simulate_errors.argtypes = (*(c_int32, c_int32), c_void_p, *(c_int64,) * 3, *(c_void_p,) * 4)
    return loaded


def round_at(
    x: int,
    y: int,
    shape: tuple[int, int, int],
    rounding: Rounding,
    *,
    inside: int | None = None,
    places: Places | None = None,
    threads: int = 1,
    isa: str = "auto",
) -> None:
    """Round the float32 elements at address x into those at y (the same, or apart), [outer, channels, inner].

    inside: address of a bit per element, first element in bit 0, set where the element was not limited. places: for
    stochastic rounding. Raises LibraryError.
    """
    arrays = (_address(array) for array in (rounding.scale, rounding.lowest, rounding.highest))
    scaled = _Scaled(*shape, rounding.block, *arrays)
    rule = _Rounding(
        rounding.mantissa, rounding.quantum, ROUNDINGS.index(rounding.rounding), BEYOND.index(rounding.beyond)
    )
    at = None
    if places is not None:
        at = byref(_Places(places.seed, places.step, places.tensor, places.row, places.first, places.stride))
    assert places is not None or rounding.rounding != "stochastic", "stochastic rounding needs the elements' places"
    _check(
        library().em_simulate_round(ISA_NAMES.index(isa), threads, x, y, inside, byref(scaled), byref(rule), at), isa
    )


def keep_at(x: int, y: int, inside: int, count: int, *, threads: int = 1, isa: str = "auto") -> None:
    """Copy the float32 elements at x whose bit (as of `round_at`) is set to those at y; 0 for the others.

    Raises LibraryError.
    """
    _check(library().em_simulate_keep(ISA_NAMES.index(isa), threads, x, y, inside, count), isa)


def range_at(x: int, count: int, *, threads: int = 1, isa: str = "auto") -> tuple[float, float]:
    """Least and greatest finite one of `count` float32 elements at an address; (0, 0) without any. LibraryError."""
    found = np.empty(2, np.float32)
    _check(library().em_simulate_range(ISA_NAMES.index(isa), threads, x, count, found.ctypes.data), isa)
    return float(found[0]), float(found[1])


def histogram_at(x: int, count: int, *, threads: int = 1) -> NDArray[np.int64]:
    """How many of `count` float32 elements at an address are in each bin, int64 [BINS]; others than finite in none.

    A bin has the patterns of equal upper 15 bits; bins are in the order of their values, negative ones first. Raises
    LibraryError.
    """
    counts = np.empty(BINS, np.int64)
    library().em_simulate_histogram(threads, x, count, counts.ctypes.data)
    return counts


def errors_at(
    x: int,
    shape: tuple[int, int],
    scale: NDArray[np.float32],
    lowest: NDArray[np.float32],
    highest: NDArray[np.float32],
    *,
    threads: int = 1,
    isa: str = "auto",
) -> NDArray[np.float64]:
    """Square error of each row of finite float32 elements at an address, [rows, count], for each of its candidates.

    A candidate, of [rows, candidates], rounds to the nearest integer times its scale, ties to even, within its limits:
    integers of magnitude below 2**22, lowest <= 0 <= highest. Raises LibraryError.
    """
    candidates = [np.ascontiguousarray(each, np.float32) for each in (scale, lowest, highest)]
    errors = np.empty(scale.shape, np.float64)
    addresses = [*(each.ctypes.data for each in candidates), errors.ctypes.data]
    found = library().em_simulate_errors(ISA_NAMES.index(isa), threads, x, *shape, scale.shape[1], *addresses)
    _check(found, isa)
    return errors


def best_isa() -> str:
    """Name of the fastest supported instruction set of this machine. Raises LibraryError as `library`."""
    return ISA_NAMES[library().em_simulate_best_isa()]


def _address(array: NDArray[np.float32] | None) -> int | None:
    return None if array is None else array.ctypes.data


def _check(code: int, isa: str) -> None:
    if code != 0:
        raise LibraryError(f"this machine has no {isa}, its best is {best_isa()}")
