"""Reads the operands of an instruction, as printed, into functions of the state."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from edgemeta_proof.machine_code.execution.wave import PT, RZ, UPT, URZ, Wave
from edgemeta_proof.machine_code.execution.words import Flags, Words, half, refuse, uniform
from edgemeta_proof.machine_code.sass import Instruction

Source: TypeAlias = Callable[[Wave], Words]
Test: TypeAlias = Callable[[Wave], Flags]

_OPERAND = re.compile(
    r"([-+]?)(~?)(\|?)(?:(U?R)(\d+|Z)|c\[(0x[0-9a-f]+)\]\[(0x[0-9a-f]+)\]|(0x[0-9a-f]+))((?:\.[A-Z0-9]+)*)\|?$"
)
_PREDICATE = re.compile(r"(!?)(U?P)(\d|T)$")
_FLOAT = re.compile(r"([-+]?)(\d+(?:\.\d+)?(?:e[-+]?\d+)?|INF|QNAN)$")


@dataclass(frozen=True)
class Operand:
    """A register, constant or immediate, and how it is changed before use."""

    minus: bool
    inverse: bool
    absolute: bool
    number: int | None
    bank: tuple[int, int] | None
    value: int
    suffix: str

    def read(self, wave: Wave) -> Words:
        """The 32 bits, unchanged."""
        if self.number is not None:
            return wave.registers[self.number]
        return wave.banks[self.bank] if self.bank is not None else uniform(self.value)


def operand(instruction: Instruction, index: int) -> Operand:
    """An operand by its position as printed. Raises ExecutionError for one of another kind."""
    if index >= len(instruction.operands):
        raise refuse(instruction, f"it has no operand {index}")
    found = _OPERAND.match(instruction.operands[index])
    if found is None:
        raise refuse(instruction, f"the operand {instruction.operands[index]} is not modelled")
    sign, inverse, absolute, kind, number, bank, offset, value, suffix = found.groups()
    where = (int(bank, 16), int(offset, 16)) if bank else None
    constant = 0
    if value:  # a sign before a number is part of the number
        constant, sign = int(value, 16) * (-1 if sign == "-" else 1), ""
    return Operand(
        sign == "-", bool(inverse), bool(absolute), _register(kind, number), where, constant, suffix.replace(".CC", "")
    )


def _register(kind: str | None, number: str) -> int | None:
    if kind is None:
        return None
    if number == "Z":
        return RZ if kind == "R" else URZ
    return int(number) + (256 if kind == "UR" else 0)


def word(instruction: Instruction, index: int) -> Source:
    """A 32-bit integer, with absolute value, inversion and sign applied."""
    found = operand(instruction, index)
    if found.suffix:
        raise refuse(instruction, f"the suffix {found.suffix} is not modelled")
    if not (found.minus or found.inverse or found.absolute):
        return raw(instruction, index)

    def read(wave: Wave) -> Words:
        words = found.read(wave)
        words = np.abs(words) if found.absolute else words
        words = ~words if found.inverse else words
        return -words if found.minus else words

    return read


def raw(instruction: Instruction, index: int) -> Source:
    """A register, constant or immediate, whatever part of it the operand selects."""
    found = operand(instruction, index)
    if found.number is not None:
        number = found.number
        return lambda wave: wave.registers[number]
    if found.bank is not None:
        bank = found.bank
        return lambda wave: constant(wave, instruction, bank)
    immediate = uniform(found.value)
    return lambda _: immediate


def constant(wave: Wave, instruction: Instruction, place: tuple[int, int]) -> Words:
    """A word of a constant bank. Raises ExecutionError for one of which nothing is known."""
    if place not in wave.banks:
        raise refuse(instruction, f"nothing is known of constant {place[1]:#x} in bank {place[0]}")
    return wave.banks[place]


def selected_half(instruction: Instruction, index: int, is_signed: bool) -> Source:
    """The 16 bits that .H0 or .H1 selects, the low ones without; extended to 32."""
    found = operand(instruction, index)
    if found.suffix not in ("", ".H0", ".H1") or found.minus or found.inverse or found.absolute:
        raise refuse(instruction, f"the operand {instruction.operands[index]} is not modelled")
    upper, source = found.suffix == ".H1", raw(instruction, index)
    if found.number is None and found.bank is None:
        constant = half(uniform(found.value), upper, is_signed)
        return lambda _: constant
    return lambda wave: half(source(wave), upper, is_signed)


def group(instruction: Instruction, index: int, count: int) -> list[Source]:
    """Registers from the named one on; RZ stands for zeros."""
    found = operand(instruction, index)
    if found.number is None:
        raise refuse(instruction, f"the operand {instruction.operands[index]} is no register")
    return [_reader(number) for number in numbers(found.number, count)]


def _reader(number: int) -> Source:
    return lambda wave: wave.registers[number]


def numbers(first: int, count: int) -> list[int]:
    """Numbers of adjacent registers."""
    return [first if first in (RZ, URZ) else first + n for n in range(count)]


def target(instruction: Instruction, index: int = 0) -> int:
    """The register that is written."""
    found = operand(instruction, index)
    if found.number is None or found.minus or found.inverse or found.absolute or found.suffix:
        raise refuse(instruction, f"the target {instruction.operands[index]} is not modelled")
    return found.number


def sets_carry(instruction: Instruction) -> bool:
    """Whether the carry register is written (.CC at the target)."""
    return instruction.operands[0].endswith(".CC")


def is_predicate(instruction: Instruction, index: int) -> bool:
    """Whether an operand exists and is a predicate."""
    return index < len(instruction.operands) and _PREDICATE.match(instruction.operands[index]) is not None


def predicate_target(instruction: Instruction, index: int) -> int:
    """The predicate that is written."""
    found = _PREDICATE.match(instruction.operands[index])
    if found is None or found[1]:
        raise refuse(instruction, f"the target {instruction.operands[index]} is no predicate")
    return predicate_number(found[2] + found[3])


def predicate_number(name: str) -> int:
    """The number of a predicate in the state."""
    number = PT if name.endswith("T") else int(name[-1])
    return number + (UPT - PT if name.startswith("U") else 0)


def test(instruction: Instruction, index: int) -> Test:
    """A predicate, negated if it is printed so."""
    found = _PREDICATE.match(instruction.operands[index])
    if found is None:
        raise refuse(instruction, f"the operand {instruction.operands[index]} is no predicate")
    number = predicate_number(found[2] + found[3])
    if found[1]:
        return lambda wave: ~wave.predicates[number]
    return lambda wave: wave.predicates[number]


def real(instruction: Instruction, index: int) -> Source:
    """The bits of a float32, with absolute value and sign applied."""
    literal = _FLOAT.match(instruction.operands[index])
    if literal and not instruction.operands[index].lstrip("-+").startswith("0x"):
        number = np.float32(literal[2].replace("QNAN", "nan")) * (-1 if literal[1] == "-" else 1)
        bits = np.array([number], np.float32).view(np.int32)
        return lambda _: bits
    found = operand(instruction, index)
    if found.suffix or found.inverse:
        raise refuse(instruction, f"the operand {instruction.operands[index]} is not modelled")
    source = raw(instruction, index)
    if not (found.minus or found.absolute):
        return source
    sign = np.int32(-(1 << 31))

    def read(wave: Wave) -> Words:
        words = source(wave)
        words = words & ~sign if found.absolute else words
        return words ^ sign if found.minus else words

    return read
