"""Operands of machine instructions as arrays over all lanes.

A register is a pair of arrays: values (int64, holding 0 .. 2**32-1) and whether they are known.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.machine_code.sass import Instruction

Words: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

MASK = 0xFFFFFFFF
_OPERAND = re.compile(r"([-+]?)(~?)(\|?)(U?R[0-9Z]+|c\[\w+\]\[\w+\]|-?0x[0-9a-f]+)((?:\.[A-Z0-9]+)*)\|?$")


@dataclass(frozen=True)
class Value:
    """A 32-bit register of every lane: words 0 .. 2**32-1, whether known, and the high word of a wide result."""

    words: Words
    known: Flags
    high: Words | None = None

    def signed(self) -> Words:
        """The words as signed integers."""
        return np.where(self.words >= 1 << 31, self.words - (1 << 32), self.words)


@dataclass(frozen=True)
class Predicate:
    """A predicate of every lane."""

    flags: Flags
    known: Flags


Read: TypeAlias = Callable[[str], Value]
"""Returns a register or constant, without sign or half selection."""


class Operands:
    """The operands of one instruction as values, with negation, inversion, absolute value and halves applied."""

    def __init__(
        self, instruction: Instruction, read: Read, predicate: Callable[[str], Predicate], carry: Callable[[], Value]
    ) -> None:
        self.instruction = instruction
        self._read = read
        self._predicate = predicate
        self.carry = carry

    def value(self, index: int) -> Value:
        """Operand by position as printed, destination first."""
        found = _OPERAND.match(self.instruction.operands[index])
        if found is None:
            return self.unknown()
        minus, inverse, absolute, name, suffix = found.groups()
        value = self._read(name)
        words = _part(value, suffix)
        if words is None:
            return self.unknown()
        if absolute:
            words = np.abs(Value(words, value.known).signed())
        if inverse:
            words = ~words
        if minus == "-":
            words = -words
        return Value(words & MASK, value.known)

    def whole(self, index: int) -> Value:
        """A register or constant by position, ignoring the selection of a half."""
        name = self.instruction.operands[index]
        return self.value(index) if name.startswith("0x") else self._read(name.partition(".H")[0])

    def above(self, index: int) -> Value:
        """The register after a register by position: the high word of a pair."""
        name = self.instruction.operands[index]
        if name in ("RZ", "URZ"):
            return self._read("RZ")
        found = re.fullmatch(r"(U?R)(\d+)", name)
        return self._read(f"{found[1]}{int(found[2]) + 1}") if found else self.unknown()

    def predicate(self, index: int) -> Predicate:
        """A predicate operand by position, "!" applied."""
        name = self.instruction.operands[index]
        predicate = self._predicate(name.removeprefix("!"))
        return Predicate(~predicate.flags, predicate.known) if name.startswith("!") else predicate

    def immediate(self, index: int) -> int:
        """A constant operand by position."""
        return int(self.instruction.operands[index], 16)

    def unknown(self) -> Value:
        """A value that is unknown in every lane."""
        zero = self._read("RZ")
        return Value(zero.words, np.zeros_like(zero.known))


def _part(value: Value, suffix: str) -> Words | None:
    """The part of a register that a suffix selects, zero-extended; None for an unsupported suffix."""
    parts = {"": (0, 32), ".H0": (0, 16), ".H1": (16, 16), ".B0": (0, 8), ".B1": (8, 8), ".B2": (16, 8), ".B3": (24, 8)}
    suffix = suffix.replace(".CC", "")
    if suffix not in parts:
        return None
    shift, bits = parts[suffix]
    return (value.words >> shift) & ((1 << bits) - 1)


def extend(words: Words, bits: int) -> Words:
    """Sign-extend the low bits."""
    words = words & ((1 << bits) - 1)
    return np.where(words >= 1 << (bits - 1), words - (1 << bits), words)


def all_known(*values: Value | Predicate) -> Flags:
    """Lanes in which every value is known."""
    known = values[0].known
    for value in values[1:]:
        known = known & value.known
    return known
