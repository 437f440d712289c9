"""Registers of all lanes as arrays, and the arithmetic on them.

A register is an int32 array with one element per lane, or with one element if all lanes hold the same value. Arrays are
never changed in place, so that registers may share them. Arithmetic on int32 arrays wraps.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.sass import Instruction, SassError

Words: TypeAlias = NDArray[np.int32]
Wide: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]
Mask: TypeAlias = Flags | None
"""The lanes that execute an instruction; None for all that have not ended."""

WARP = 32
MASK = 0xFFFFFFFF


class ExecutionError(SassError):
    """Machine code did something that is an error or undefined on a GPU, or that is not modelled; one sentence."""


def refuse(instruction: Instruction, reason: str) -> ExecutionError:
    """An error at an instruction."""
    text = " ".join([instruction.opcode, ", ".join(instruction.operands)]).strip()
    return ExecutionError(f"{text} at {instruction.address:#x}: {reason}")


def check_modifiers(instruction: Instruction, *known: str) -> set[str]:
    """The modifiers of an instruction. Raises ExecutionError for one that is not modelled."""
    unknown = [each for each in instruction.modifiers if each not in known]
    if unknown:
        raise refuse(instruction, f"the modifier {unknown[0]} is not modelled")
    return set(instruction.modifiers)


def uniform(value: int) -> Words:
    """The same 32 bits in all lanes."""
    return np.array([value & MASK], np.uint32).view(np.int32)


def unsigned(words: Words) -> Wide:
    """The words as 0 .. 2**32-1."""
    return words.view(np.uint32).astype(np.int64)


def signed(words: Words) -> Wide:
    """The words as -2**31 .. 2**31-1."""
    return words.astype(np.int64)


def low(wide: NDArray[Any]) -> Words:
    """The low 32 bits of 64-bit integers."""
    return wide.astype(np.int32)


def high(wide: Wide) -> Words:
    """The high 32 bits of 64-bit integers."""
    return (wide >> 32).astype(np.int32)


def pair(lower: Words, upper: Words) -> Wide:
    """Two words as one signed 64-bit integer."""
    return (upper.astype(np.int64) << 32) | lower.view(np.uint32).astype(np.int64)


def half(words: Words, upper: bool, is_signed: bool) -> Words:
    """The low or high 16 bits, extended to 32."""
    if upper:
        return words >> 16 if is_signed else (words.view(np.uint32) >> 16).view(np.int32)
    return words << 16 >> 16 if is_signed else words & 0xFFFF


def byte(words: Words, number: int, is_signed: bool) -> Words:
    """One of the four bytes, extended to 32 bits."""
    top = words << (24 - 8 * number)
    return top >> 24 if is_signed else (top.view(np.uint32) >> 24).view(np.int32)


def as_float(words: Words) -> Floats:
    """The bits as float32."""
    return words.view(np.float32)


def of_float(floats: Floats) -> Words:
    """The bits of float32; every NaN becomes the GPU's 0x7fffffff."""
    return np.where(np.isnan(floats), np.int32(0x7FFFFFFF), floats.view(np.int32))


def by_warp(lanes: Flags) -> NDArray[np.bool_]:
    """The lanes as rows of warps."""
    return lanes.reshape(-1, WARP)
