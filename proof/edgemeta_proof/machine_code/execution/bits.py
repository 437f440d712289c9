"""Moves, logic, shifts, fields, bytes and selection of words."""

import re
from collections.abc import Callable

import numpy as np

from edgemeta_proof.machine_code.execution.additions import place
from edgemeta_proof.machine_code.execution.operands import (
    constant,
    is_predicate,
    numbers,
    operand,
    predicate_target,
    raw,
    target,
    test,
    word,
)
from edgemeta_proof.machine_code.execution.wave import Step, Wave
from edgemeta_proof.machine_code.execution.words import (
    Flags,
    Mask,
    Wide,
    Words,
    byte,
    check_modifiers,
    half,
    high,
    low,
    pair,
    refuse,
    uniform,
    unsigned,
)
from edgemeta_proof.machine_code.sass import Instruction


def move(i: Instruction) -> Step:
    """MOV, MOV32I, UMOV, ULDC, R2UR: copies a word, with .64 two; a third operand, the mask of bytes, must be all."""
    modifiers = check_modifiers(i, "64", "U32")
    if len(i.operands) > 2 and i.operands[2] not in ("0xf", "PT"):
        raise refuse(i, "its operands are not modelled")
    to, a = target(i), word(i, 1)
    if "64" not in modifiers:
        return lambda wave, mask: wave.set(to, a(wave), mask)
    bank = operand(i, 1).bank
    if bank is None:
        raise refuse(i, "its operands are not modelled")

    def step(wave: Wave, mask: Mask) -> None:
        for n, number in enumerate(numbers(to, 2)):
            wave.set(number, constant(wave, i, (bank[0], bank[1] + 4 * n)), mask)

    return step


def zero(i: Instruction) -> Step:
    """CS2R with SRZ: zeros, two registers without .32."""
    modifiers = check_modifiers(i, "32")
    if i.operands[1] != "SRZ":
        raise refuse(i, f"the special register {i.operands[1]} is not modelled")
    targets = numbers(target(i), 1 if "32" in modifiers else 2)

    def step(wave: Wave, mask: Mask) -> None:
        for number in targets:
            wave.set(number, uniform(0), mask)

    return step


def special(i: Instruction) -> Step:
    """S2R, S2UR: index of the thread or block."""
    check_modifiers(i)
    to, name = target(i), i.operands[1]

    def step(wave: Wave, mask: Mask) -> None:
        if name not in wave.special:
            raise refuse(i, f"the special register {name} is not modelled")
        wave.set(to, wave.special[name], mask)

    return step


_LOGIC: dict[str, Callable[[Words, Words], Words]] = {
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "PASS_B": lambda _, b: b,
}


def logic(i: Instruction) -> Step:
    """LOP, LOP32I; with a predicate before the target: whether the result is not zero (.NZ)."""
    modifiers = check_modifiers(i, *_LOGIC, "NZ")
    first = 1 if is_predicate(i, 0) else 0
    operation = next(_LOGIC[each] for each in i.modifiers if each in _LOGIC)
    flag = predicate_target(i, 0) if first else None
    if ("NZ" in modifiers) != (flag is not None):
        raise refuse(i, "its operands are not modelled")
    to, a, b = target(i, first), word(i, first + 1), word(i, first + 2)

    def step(wave: Wave, mask: Mask) -> None:
        words = operation(a(wave), b(wave))
        if flag is not None:
            wave.decide(flag, words != 0, mask)
        wave.set(to, words, mask)

    return step


def logic3(i: Instruction) -> Step:
    """LOP3.LUT: bit n of the table is the result for bits a, b, c = bits 2, 1, 0 of n.

    A predicate before the target is whether the result is not zero; one after the table must be !PT, which adds none.
    """
    check_modifiers(i, "LUT", "NZ")
    first = 1 if is_predicate(i, 0) else 0
    flag = predicate_target(i, 0) if first else None
    if len(i.operands) > first + 5 and i.operands[first + 5] not in ("!PT", "!UPT"):
        raise refuse(i, "its operands are not modelled")
    to, sources = target(i, first), [word(i, first + n) for n in (1, 2, 3)]
    table = operand(i, first + 4).value

    def step(wave: Wave, mask: Mask) -> None:
        words = look_up(table, *(source(wave) for source in sources))
        if flag is not None:
            wave.decide(flag, words != 0, mask)
        wave.set(to, words, mask)

    return step


_SHORT: dict[int, Callable[[Words, Words, Words], Words]] = {
    0xC0: lambda a, b, _: a & b,
    0x3C: lambda a, b, _: a ^ b,
    0xFC: lambda a, b, _: a | b,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xFE: lambda a, b, c: a | b | c,
    0xF8: lambda a, b, c: a | b & c,
    0xEA: lambda a, b, c: a & b | c,
    0x6A: lambda a, b, c: a & b ^ c,
    0x78: lambda a, b, c: a ^ b & c,
}


def look_up(table: int, a: Words, b: Words, c: Words) -> Words:
    """A function of three bits, by its table, for every bit."""
    if table in _SHORT:
        return _SHORT[table](a, b, c)
    words = uniform(0)
    for n in range(8):
        if table >> n & 1:
            words = words | ((a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c))
    return words


def shift(i: Instruction) -> Step:
    """SHL, SHR of Maxwell: amounts above 31 shift everything out; SHR copies the sign unless U32."""
    modifiers = check_modifiers(i, "U32")
    to, a, b = target(i), word(i, 1), word(i, 2)
    if i.base == "SHL":
        return lambda wave, mask: wave.set(to, low(unsigned(a(wave)) << _amount(b(wave), 32)), mask)
    if "U32" in modifiers:
        return lambda wave, mask: wave.set(to, low(unsigned(a(wave)) >> _amount(b(wave), 32)), mask)
    return lambda wave, mask: wave.set(to, a(wave) >> _amount(b(wave), 31).astype(np.int32), mask)


def _amount(words: Words, most: int) -> Wide:
    return np.minimum(unsigned(words), most)


def count(i: Instruction) -> Step:
    """POPC: the number of bits that are 1."""
    check_modifiers(i)
    to, a = target(i), word(i, 1)

    def step(wave: Wave, mask: Mask) -> None:
        words = np.ascontiguousarray(a(wave))
        bits = np.unpackbits(words.view(np.uint8).reshape(-1, 4), axis=1)
        wave.set(to, bits.sum(axis=1, dtype=np.int32), mask)

    return step


def funnel(i: Instruction) -> Step:
    """SHF: (c:a) shifted as 64 bits. The upper word of a left shift on Maxwell, else the lower one unless HI.

    Amounts are clamped to 32, for types of 64 bits to 63; W: taken modulo 32 or 64.
    """
    modifiers = check_modifiers(i, "L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    if len(modifiers & {"L", "R"}) != 1:
        raise refuse(i, "its modifiers are not modelled")
    to, a, b, c = target(i), word(i, 1), word(i, 2), word(i, 3)
    is_old = not modifiers & {"U32", "S32", "HI"} and "L" in modifiers
    upper, is_wide = "HI" in modifiers or is_old, bool(modifiers & {"U64", "S64"})
    most = 63 if is_wide else 32

    def step(wave: Wave, mask: Mask) -> None:
        amount = unsigned(b(wave)) & most if "W" in modifiers and is_wide else _amount(b(wave), most)
        if "W" in modifiers and not is_wide:
            amount = unsigned(b(wave)) & 31
        words = pair(a(wave), c(wave))
        if "L" in modifiers:
            words = words << amount
        elif modifiers & {"S32", "S64"}:
            words = words >> amount
        else:
            words = (words.view(np.uint64) >> amount.astype(np.uint64)).view(np.int64)
        wave.set(to, high(words) if upper else low(words), mask)

    return step


def field(i: Instruction) -> Step:
    """BFE: `length` bits from bit `start` of a, where b = length << 8 | start.

    Unless U32, the field's top bit is copied upwards; for a field that ends above bit 31 bit 31 (PTX: bfe).
    """
    modifiers = check_modifiers(i, "U32")
    to, a, b = target(i), word(i, 1), word(i, 2)

    def step(wave: Wave, mask: Mask) -> None:
        start, length = (each.astype(np.int64) for each in (byte(b(wave), 0, False), byte(b(wave), 1, False)))
        value = unsigned(a(wave)) if "U32" in modifiers else a(wave).astype(np.int64)
        left = 64 - np.minimum(length, 32)
        bits = value >> np.minimum(start, 63)
        if "U32" in modifiers:
            bits = bits & ((np.int64(1) << np.minimum(length, 32)) - 1)
        else:
            bits = np.where(length == 0, 0, bits << np.minimum(left, 63) >> np.minimum(left, 63))
        wave.set(to, low(bits), mask)

    return step


def extend(i: Instruction) -> Step:
    """SGXT: the low bits of a word, as many as an immediate says, extended with their sign."""
    check_modifiers(i)
    to, a, bits = target(i), word(i, 1), operand(i, 2)
    if bits.number is not None or bits.bank is not None or not 1 <= bits.value <= 32:
        raise refuse(i, "its operands are not modelled")
    return lambda wave, mask: wave.set(to, a(wave) << (32 - bits.value) >> (32 - bits.value), mask)


def insert(i: Instruction) -> Step:
    """BFI: c with a's low `length` bits from bit `start` on, where b = length << 8 | start."""
    check_modifiers(i)
    to, a, b, c = target(i), word(i, 1), word(i, 2), word(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        start, length = (each.astype(np.int64) for each in (byte(b(wave), 0, False), byte(b(wave), 1, False)))
        covered = ((np.int64(1) << np.minimum(length, 32)) - 1) << np.minimum(start, 32)
        words = (unsigned(a(wave)) << np.minimum(start, 32)) & covered | unsigned(c(wave)) & ~covered
        wave.set(to, low(words), mask)

    return step


def permute(i: Instruction) -> Step:
    """PRMT: four of the bytes of c:a, by the nibbles of the selector; bit 3 of a nibble copies the byte's sign."""
    check_modifiers(i)
    to, a, selector, c = target(i), word(i, 1), word(i, 2), word(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        chosen, sources = selector(wave), (a(wave), c(wave))
        wave.set(to, _bytes(chosen, sources), mask)

    return step


def _bytes(selector: Words, sources: tuple[Words, Words]) -> Words:
    words = uniform(0)
    for n in range(4):
        nibble = selector >> 4 * n & 0xF
        if len(selector) == 1:
            number = int(nibble[0])
            part = _byte(sources, number & 7, bool(number & 8))
        else:
            each = [_byte(sources, number, False) for number in range(8)]
            part = np.choose(nibble & 7, each)
            part = np.where(nibble & 8, np.where(part & 0x80, 0xFF, 0), part).astype(np.int32)
        words = words | (part & 0xFF) << 8 * n
    return words


def _byte(sources: tuple[Words, Words], number: int, sign: bool) -> Words:
    found = byte(sources[number // 4], number % 4, True)
    return found >> 31 if sign else found & 0xFF


def select(i: Instruction) -> Step:
    """SEL: a if the predicate holds, else b."""
    check_modifiers(i)
    to, a, b, p = target(i), word(i, 1), word(i, 2), test(i, 3)
    return lambda wave, mask: wave.set(to, np.where(p(wave), a(wave), b(wave)), mask)


def compared_select(i: Instruction) -> Step:
    """ICMP: a if c compares with 0, else b."""
    check_modifiers(i, *COMPARE, "U32")
    compare = next(COMPARE[each] for each in i.modifiers if each in COMPARE)
    is_unsigned = "U32" in i.modifiers
    to, a, b, c = target(i), word(i, 1), word(i, 2), word(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        words = unsigned(c(wave)) if is_unsigned else c(wave)
        wave.set(to, np.where(compare(words, 0), a(wave), b(wave)), mask)

    return step


COMPARE: dict[str, Callable[..., Flags]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


def convert_integer(i: Instruction) -> Step:
    """I2I.TO.FROM: the low bits of a word, extended; |of it|, - of it if printed so; then the low bits, extended."""
    if len(i.modifiers) != 2 or not all(re.fullmatch(r"[US](8|16|32)", each) for each in i.modifiers):
        raise refuse(i, "its modifiers are not modelled")
    found, to = operand(i, 1), target(i)
    if found.inverse or found.suffix:
        raise refuse(i, "its operands are not modelled")
    source = raw(i, 1)

    def step(wave: Wave, mask: Mask) -> None:
        words = _extended(source(wave), i.modifiers[1])
        words = np.abs(words) if found.absolute else words
        wave.set(to, _extended(-words if found.minus else words, i.modifiers[0]), mask)

    return step


def _extended(words: Words, kind: str) -> Words:
    if kind.endswith("32"):
        return words
    is_signed = kind.startswith("S")
    return half(words, False, is_signed) if kind.endswith("16") else byte(words, 0, is_signed)


def half_constant(i: Instruction) -> Step:
    """HFMA2 d, -RZ, RZ, upper, lower: a constant of two half-precision numbers."""
    check_modifiers(i, "MMA")
    if i.operands[1:3] != ("-RZ", "RZ") or len(i.operands) != 5:
        raise refuse(i, "only its use for constants is modelled")
    upper, lower = (int(np.float16(each).view(np.uint16)) for each in i.operands[3:])
    to, words = target(i), uniform(upper << 16 | lower)
    return lambda wave, mask: wave.set(to, words, mask)


def limits(i: Instruction) -> Step:
    """VMNMX.MX.MIN: the minimum of c and the maximum of a and b; .MAX: their maximum; no .MX: the minimum of a, b."""
    if i.modifiers not in (("MX", "MIN"), ("MIN",), ("MX", "MAX"), ("MAX",)):
        raise refuse(i, "its modifiers are not modelled")
    inner = np.maximum if "MX" in i.modifiers else np.minimum
    outer = np.maximum if "MAX" in i.modifiers else np.minimum
    to, a, b, c = place(i), word(i, 1), word(i, 2), word(i, 3)
    return lambda wave, mask: wave.set(to, outer(inner(a(wave), b(wave)), c(wave)), mask)
