"""IMMA: products of int8 matrices by a warp, with the fragments of PTX's mma.sync."""

import numpy as np

from edgemeta.kernels.cuda.machine_code.execution.operands import Source, numbers, operand, target
from edgemeta.kernels.cuda.machine_code.execution.wave import Step, Wave
from edgemeta.kernels.cuda.machine_code.execution.words import Mask, Words, by_warp, check_modifiers, refuse
from edgemeta.kernels.cuda.machine_code.sass import Instruction

_DEPTHS = {"16816": 16, "16832": 32}
_ROWS, _COLUMNS = 16, 8


def matrix_multiply(i: Instruction) -> Step:
    """IMMA.168K: d[16, 8] = a[16, K] b[K, 8] + c in int32 that wraps; the types' modifiers are a's and b's.

    Lane l = 4 g + t (PTX ISA, fragments of mma.m16n8k16 and m16n8k32 with 8 bits): register r of a holds row
    g + 8 (r % 2), columns 4 t .. 4 t + 3 plus 16 (r // 2); register r of b rows 4 t .. plus 16 r of column g; register
    r of c and d row g + 8 (r // 2), column 2 t + r % 2.
    """
    modifiers = check_modifiers(i, *_DEPTHS, "S8", "U8")
    signs = [np.int8 if each == "S8" else np.uint8 for each in i.modifiers if each in ("S8", "U8")]
    depth = next((_DEPTHS[each] for each in modifiers if each in _DEPTHS), None)
    if depth is None or len(signs) != 2 or not (i.operands[1].endswith(".ROW") and i.operands[2].endswith(".COL")):
        raise refuse(i, "this form is not modelled")
    to, parts = numbers(target(i), 4), depth // 16
    a, b, c = _registers(i, 1, 2 * parts), _registers(i, 2, parts), _registers(i, 3, 4)

    def step(wave: Wave, mask: Mask) -> None:
        running = by_warp(wave.running(mask))
        if (running.any(axis=1) != running.all(axis=1)).any():
            raise refuse(i, "not all lanes of a warp execute it")

        def read(sources: list[Source]) -> Words:
            return np.stack([wave.spread(source(wave)) for source in sources], axis=-1).reshape(-1, 8, 4, len(sources))

        left = read(a).view(signs[0]).reshape(-1, 8, 4, parts, 2, 4)  # warp, g, t, k half, row half, byte
        left = left.transpose(0, 4, 1, 3, 2, 5).reshape(-1, _ROWS, 16 * parts)
        right = read(b).view(signs[1]).reshape(-1, 8, 4, parts, 4).transpose(0, 3, 2, 4, 1)  # warp, k half, t, byte, g
        right = right.reshape(-1, 16 * parts, _COLUMNS)
        exact = left.astype(np.float32) @ right.astype(np.float32)  # |sums| <= 32 * 2**15 < 2**24
        sums = exact.astype(np.int32).reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
        for n, number in enumerate(to):
            wave.set(number, sums[:, n] + c[n](wave), mask)

    return step


def _registers(i: Instruction, index: int, count: int) -> list[Source]:
    found = operand(i, index)
    if found.number is None or found.suffix not in ("", ".ROW", ".COL"):
        raise refuse(i, f"the operand {i.operands[index]} is not modelled")
    return [_reader(number) for number in numbers(found.number, count)]


def _reader(number: int) -> Source:
    return lambda wave: wave.registers[number]
