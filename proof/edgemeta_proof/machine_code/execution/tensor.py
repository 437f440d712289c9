"""IMMA: products of int8 or int4 matrices by a warp, with the fragments of PTX's mma.sync."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.operands import Source, numbers, operand, target
from edgemeta_proof.machine_code.execution.wave import Step, Wave
from edgemeta_proof.machine_code.execution.words import Mask, Words, by_warp, check_modifiers, refuse
from edgemeta_proof.machine_code.sass import Instruction

_DEPTHS = {"16816": 16, "16832": 32, "16864": 64}
_TYPES = {"S8": (8, True), "U8": (8, False), "S4": (4, True), "U4": (4, False)}
"""Bits of an element, and whether it has a sign."""
_ROWS, _COLUMNS = 16, 8


def matrix_multiply(i: Instruction) -> Step:
    """IMMA.168K: d[16, 8] = a[16, K] b[K, 8] + c in int32 that wraps; the types' modifiers are a's and b's.

    A register holds E = 4 elements of 8 bits or 8 of 4 bits, the first one lowest. Lane l = 4 g + t (PTX ISA, fragments
    of mma.m16n8k16 and m16n8k32 with 8 bits, m16n8k32 and m16n8k64 with 4 bits): register r of a holds row
    g + 8 (r % 2), columns E t .. E t + E - 1 plus 4 E (r // 2); register r of b rows E t .. plus 4 E r of column g;
    register r of c and d row g + 8 (r // 2), column 2 t + r % 2.
    """
    modifiers = check_modifiers(i, *_DEPTHS, *_TYPES)
    types = [_TYPES[each] for each in i.modifiers if each in _TYPES]
    depth = next((_DEPTHS[each] for each in modifiers if each in _DEPTHS), 0)
    parts = depth * types[0][0] // 128 if len(types) == 2 and types[0][0] == types[1][0] else 0
    if parts not in (1, 2) or not (i.operands[1].endswith(".ROW") and i.operands[2].endswith(".COL")):
        raise refuse(i, "this form is not modelled")
    to, per_word = numbers(target(i), 4), 32 // types[0][0]
    a, b, c = _registers(i, 1, 2 * parts), _registers(i, 2, parts), _registers(i, 3, 4)

    def step(wave: Wave, mask: Mask) -> None:
        running = by_warp(wave.running(mask))
        if (running.any(axis=1) != running.all(axis=1)).any():
            raise refuse(i, "not all lanes of a warp execute it")

        def read(sources: list[Source]) -> Words:
            return np.stack([wave.spread(source(wave)) for source in sources], axis=-1).reshape(-1, 8, 4, len(sources))

        left = _elements(read(a), *types[0]).reshape(-1, 8, 4, parts, 2, per_word)
        left = left.transpose(0, 4, 1, 3, 2, 5).reshape(-1, _ROWS, depth)  # from warp, g, t, k half, row half, element
        right = _elements(read(b), *types[1]).reshape(-1, 8, 4, parts, per_word)
        right = right.transpose(0, 3, 2, 4, 1).reshape(-1, depth, _COLUMNS)  # from warp, g, t, k half, element
        exact = left.astype(np.float32) @ right.astype(np.float32)  # |sums| <= 32 * 2**15 < 2**24
        sums = exact.astype(np.int32).reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
        for n, number in enumerate(to):
            wave.set(number, sums[:, n] + c[n](wave), mask)

    return step


def _elements(words: Words, bits: int, signed: bool) -> NDArray[Any]:
    """The integers of each word, the lowest first."""
    whole: NDArray[Any] = words.view(np.int8 if signed else np.uint8)
    return whole if bits == 8 else np.stack([whole << 4 >> 4, whole >> 4], axis=-1)


def _registers(i: Instruction, index: int, count: int) -> list[Source]:
    found = operand(i, index)
    if found.number is None or found.suffix not in ("", ".ROW", ".COL"):
        raise refuse(i, f"the operand {i.operands[index]} is not modelled")
    return [_reader(number) for number in numbers(found.number, count)]


def _reader(number: int) -> Source:
    return lambda wave: wave.registers[number]
