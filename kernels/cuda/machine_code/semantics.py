"""Semantics of the integer machine instructions that determine a kernel's control flow.

Thread indexes, block indexes and constants are known; data loaded from memory is not. A register is therefore a pair of
arrays over all lanes: values (int64, holding 0 .. 2**32-1) and whether they are known. Instructions that are not
modelled here give unknown values, never wrong ones. Maxwell and Pascal (sm_5x, sm_6x) have opcodes of their own (XMAD,
LOP, BFE, ISCADD), as have Volta and later (IMAD, LOP3, SHF, uniform registers); common ones are implemented once.

Sources: CUDA binary utilities (opcode tables), the disassembly of known expressions, and tests that compare with C.
"""

import re
from collections.abc import Callable

import numpy as np

from edgemeta.kernels.cuda.machine_code.operands import (
    MASK,
    Flags,
    Operands,
    Predicate,
    Value,
    Words,
    all_known,
    extend,
)

_NUMBER = r"[-+]?\d+(\.\d+)?(e[-+]\d+)?"


def _sum(o: Operands, first: int, count: int) -> Value:
    """Sum of two or three operands and the carry in; not reduced to 32 bits, so that bit 32 is the carry out."""
    values = [o.value(first + n) for n in range(count)]
    words = np.asarray(sum((value.words for value in values), np.int64(0)))
    known = all_known(*values)
    if "X" in o.instruction.modifiers:
        carry = o.carry()
        words, known = words + carry.words, known & carry.known
    if "PO" in o.instruction.modifiers:
        words = words + 1
    return Value(words, known)


def _add(o: Operands) -> Value:
    return _sum(o, 1, 2)


def _add3(o: Operands) -> Value:
    rest = o.instruction.operands[1:]
    skipped = sum(1 for operand in rest if re.fullmatch(r"!?U?P[T0-9]+", operand))
    modifiers = o.instruction.modifiers
    if skipped or modifiers not in ((), ("RS",)):  # carries of Volta, other shifts of Maxwell
        return o.unknown()
    if not modifiers:
        return _sum(o, 1, 3)
    a, b, c = o.value(1), o.value(2), o.value(3)
    return Value((a.words + b.words >> 16) + c.words & MASK, all_known(a, b, c))


def _xmad(o: Operands) -> Value:
    """XMAD: d = a.16 * b.16 (<< 16 for PSL) + c, where CBCC adds b << 16 to c, and MRG puts b's low half on top."""
    modifiers = set(o.instruction.modifiers)
    if "CSFU" in modifiers:
        return _high_product(o)
    if modifiers - {"PSL", "CBCC", "MRG", "CLO", "CHI", "S16", "U16"}:
        return o.unknown()
    signs = [m for m in o.instruction.modifiers if m in ("S16", "U16")] or ["U16", "U16"]
    a, b, c = o.value(1), o.value(2), o.value(3)
    low = [extend(v.words, 16) if sign == "S16" else v.words & 0xFFFF for v, sign in zip((a, b), signs, strict=True)]
    product = low[0] * low[1]
    raw = o.whole(2)
    if "PSL" in modifiers:
        product = product << 16
    addend = c.words
    if "CLO" in modifiers:
        addend = addend & 0xFFFF
    if "CHI" in modifiers:
        addend = addend >> 16
    if "CBCC" in modifiers:
        addend = addend + (raw.words << 16)
    words = (product + addend) & MASK
    if "MRG" in modifiers:
        words = (words & 0xFFFF) | ((raw.words & 0xFFFF) << 16)
    return Value(words, all_known(a, b, c))


def _high_product(o: Operands) -> Value:
    """XMAD.S16.S16.CSFU, one of five instructions for the high word of a signed product a b, plus c.

    The others compute x = a.high * b.low + (a.low * b.low >> 16), y = a.low * b.high and finally (x + y >> 16) + z, on
    unsigned words. z, the result of this instruction, makes that sum correct.
    """
    a, b, c = o.whole(1), o.whole(2), o.value(3)
    low = a.words & 0xFFFF, b.words & 0xFFFF
    high = a.signed() >> 16, b.signed() >> 16
    x, y = high[0] * low[1] + (low[0] * low[1] >> 16), low[0] * high[1]
    product = a.signed() * b.signed() >> 32
    return Value(product + c.words - ((x & MASK) + (y & MASK) >> 16) & MASK, all_known(a, b, c))


def _multiply_add(o: Operands) -> Value:
    modifiers = set(o.instruction.modifiers)
    if modifiers in ({"HI"}, {"HI", "U32"}, {"WIDE"}, {"WIDE", "U32"}):
        return o.unknown() if len(o.instruction.operands) != 4 else _wide_product(o)
    if modifiers - {"MOV", "SHL", "IADD", "U32"}:
        return o.unknown()
    a, b, c = o.value(1), o.value(2), o.value(3)
    return Value((a.signed() * b.signed() + c.words) & MASK, all_known(a, b, c))


def _wide_product(o: Operands) -> Value:
    """IMAD.HI and .WIDE: a b plus the register pair c, 64 bits; HI returns the high word, WIDE both (`Value.high`)."""
    a, b, c, top = o.value(1), o.value(2), o.value(3), o.above(3)
    known = all_known(a, b, c, top)
    x, y = (v.words if "U32" in o.instruction.modifiers else v.signed() for v in (a, b))
    with np.errstate(over="ignore"):
        total = x.astype(np.uint64) * y.astype(np.uint64) + (c.words | top.words << 32).astype(np.uint64)
    high, low = (total >> np.uint64(32)).astype(np.int64), (total & np.uint64(MASK)).astype(np.int64)
    return Value(high, known) if "HI" in o.instruction.modifiers else Value(low, known, high)


def _shift(o: Operands) -> Value:
    a, b = o.value(1), o.value(2)
    count = b.words & 31 if "W" in o.instruction.modifiers else np.minimum(b.words, 32)
    if o.instruction.base in ("SHL", "USHL"):
        words = (a.words << count) & MASK
    else:
        words = (a.words if "U32" in o.instruction.modifiers else a.signed()) >> count
    return Value(words & MASK, all_known(a, b))


def _funnel(o: Operands) -> Value:
    """SHF: one half of the shifted 64-bit value high:low. Operands: low, count, high."""
    modifiers = o.instruction.modifiers
    low, count, high = o.value(1), o.value(2), o.value(3)
    if modifiers[:1] == ("L",):
        shift = np.minimum(count.words, 32) if "W" not in modifiers else count.words & 31
        words = low.words << shift
        if "HI" in modifiers:
            words = (high.words << shift) | (low.words >> (32 - shift))
    else:
        shift = np.minimum(count.words, 32) if "W" not in modifiers else count.words & 31
        top = high.signed() if "S32" in modifiers or "S64" in modifiers else high.words
        words = top >> shift if "HI" in modifiers else (low.words >> shift) | (high.words << (32 - shift))
    return Value(words & MASK, all_known(low, count, high))


def _logic(o: Operands) -> Value:
    operation = next((m for m in o.instruction.modifiers if m in _LOGIC), None)
    first = 2 if o.instruction.operands[0].startswith(("P", "UP")) else 1
    a, b = o.value(first), o.value(first + 1)
    return o.unknown() if operation is None else Value(_LOGIC[operation](a.words, b.words) & MASK, all_known(a, b))


_LOGIC: dict[str, Callable[[Words, Words], Words]] = {
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "PASS_B": lambda _, b: b,
}


def _logic3(o: Operands) -> Value:
    """LOP3.LUT: bit n of the table is the result for a, b, c = bits 2, 1, 0 of n."""
    first = 2 if o.instruction.operands[0].startswith(("P", "UP")) else 1
    a, b, c = (o.value(first + n) for n in range(3))
    table = o.immediate(first + 3)
    words = np.zeros_like(a.words)
    for n in range(8):
        if table >> n & 1:
            bits = [v.words if n >> place & 1 else ~v.words for place, v in ((2, a), (1, b), (0, c))]
            words |= bits[0] & bits[1] & bits[2]
    return Value(words & MASK, all_known(a, b, c))


def _scaled_add(o: Operands) -> Value:
    """ISCADD and LEA: (a << shift) + b."""
    if o.instruction.modifiers:
        return _scaled_add_high(o)
    if len(o.instruction.operands) != 4:  # with a carry out, for addresses of 64 bits
        return o.unknown()
    a, b = o.value(1), o.value(2)
    return Value(((a.words << o.immediate(3)) & MASK) + b.words, all_known(a, b))


def _scaled_add_high(o: Operands) -> Value:
    """LEA.HI d, a, b, c, shift: the high word of (c:a << shift), plus b."""
    if o.instruction.modifiers == ("HI", "SX32") and len(o.instruction.operands) == 4:
        a, b, shift = o.value(1), o.value(2), o.immediate(3)
        return Value((a.signed() >> (32 - shift) & MASK) + b.words, all_known(a, b))
    if o.instruction.modifiers != ("HI",) or len(o.instruction.operands) != 5:
        return o.unknown()
    a, b, c, shift = o.value(1), o.value(2), o.value(3), o.immediate(4)
    words = ((c.words << shift) & MASK | a.words >> (32 - shift)) + b.words
    return Value(words, all_known(a, b, c))


def _field(o: Operands) -> Value:
    """BFE: a field of `length` bits at `place`, signed unless U32; b holds length << 8 | place."""
    a, b = o.value(1), o.value(2)
    place, length = b.words & 0xFF, np.minimum(b.words >> 8 & 0xFF, 32)
    field = (a.words >> np.minimum(place, 32)) & ((np.int64(1) << length) - 1)
    top = (np.int64(1) << length) >> 1
    words = field if "U32" in o.instruction.modifiers else np.where(field & top, field - (top << 1), field)
    return Value(words & MASK, all_known(a, b))


def _insert(o: Operands) -> Value:
    a, b, c = o.value(1), o.value(2), o.value(3)
    place, length = np.minimum(b.words & 0xFF, 32), np.minimum(b.words >> 8 & 0xFF, 32)
    mask = (((np.int64(1) << length) - 1) << place) & MASK
    return Value((a.words << place) & mask | c.words & ~mask, all_known(a, b, c))


def _permute(o: Operands) -> Value:
    if o.instruction.modifiers:
        return o.unknown()
    a, selector, c = o.value(1), o.value(2), o.value(3)
    joined = [a.words >> 8 * n & 0xFF for n in range(4)] + [c.words >> 8 * n & 0xFF for n in range(4)]
    words = np.zeros_like(a.words)
    for n in range(4):
        nibble = selector.words >> 4 * n & 0xF
        byte = np.choose(nibble & 7, joined)
        words |= np.where(nibble & 8, np.where(byte & 0x80, 0xFF, 0), byte) << 8 * n
    return Value(words, all_known(a, selector, c))


def _convert(o: Operands) -> Value:
    """I2I.TO.FROM: sign- or zero-extension of a part of a register."""
    source = next((m for m in reversed(o.instruction.modifiers) if re.fullmatch(r"[US]\d+", m)), None)
    if source is None or "SAT" in o.instruction.modifiers:
        return o.unknown()
    a = o.value(1)
    words = extend(a.words, int(source[1:])) if source.startswith("S") else a.words & ((1 << int(source[1:])) - 1)
    return Value(words & MASK, a.known)


def _select(o: Operands) -> Value:
    a, b, p = o.value(1), o.value(2), o.predicate(3)
    return Value(np.where(p.flags, a.words, b.words), all_known(a, b, p))


def _minimum(o: Operands) -> Value:
    a, b, p = o.value(1), o.value(2), o.predicate(3)
    x, y = (a.words, b.words) if "U32" in o.instruction.modifiers else (a.signed(), b.signed())
    return Value(np.where(p.flags, np.minimum(x, y), np.maximum(x, y)) & MASK, all_known(a, b, p))


def _move(o: Operands) -> Value:
    return o.value(1)


def _half_constant(o: Operands) -> Value:
    """HFMA2 d, -RZ, RZ, high, low: loads a constant with the half-precision unit."""
    operands = o.instruction.operands
    if operands[1:3] != ("-RZ", "RZ") or not all(re.fullmatch(_NUMBER, each) for each in operands[3:]):
        return o.unknown()
    high, low = (int(np.float16(each).view(np.uint16)) for each in operands[3:])
    zero = o.value(2)
    return Value(zero.words | high << 16 | low, zero.known)


def _compare(o: Operands) -> Value:
    """ISET: all ones or zero."""
    modifiers = o.instruction.modifiers
    if len(o.instruction.operands) != 4 or {"BF", "X"} & set(modifiers):
        return o.unknown()
    a, b, p = o.value(1), o.value(2), o.predicate(3)
    x, y = (a.words, b.words) if "U32" in modifiers else (a.signed(), b.signed())
    holds = _JOIN[modifiers[-1]](_COMPARE[modifiers[0]](x, y), p.flags)
    return Value(np.where(holds, MASK, 0), all_known(a, b, p))


VALUES: dict[str, Callable[[Operands], Value]] = {
    "MOV": _move, "MOV32I": _move, "UMOV": _move, "LDC": _move, "ULDC": _move, "R2UR": _move,
    "IADD": _add, "IADD32I": _add, "VIADD": _add, "IADD3": _add3, "UIADD3": _add3,
    "XMAD": _xmad, "IMAD": _multiply_add, "UIMAD": _multiply_add,
    "SHL": _shift, "SHR": _shift, "SHF": _funnel, "USHF": _funnel,
    "LOP": _logic, "LOP32I": _logic, "LOP3": _logic3, "ULOP3": _logic3,
    "ISCADD": _scaled_add, "ISCADD32I": _scaled_add, "ISET": _compare, "LEA": _scaled_add, "ULEA": _scaled_add,
    "BFE": _field, "BFI": _insert, "PRMT": _permute, "I2I": _convert, "HFMA2": _half_constant,
    "SEL": _select, "USEL": _select, "IMNMX": _minimum, "UIMNMX": _minimum, "VIMNMX": _minimum,
}  # fmt: skip
"""Functions that compute the destination register, by opcode; bit 32 and above of the result are the carry out."""

_COMPARE: dict[str, Callable[[Words, Words], Flags]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip
_JOIN: dict[str, Callable[[Flags, Flags], Flags]] = {
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}


def predicates(o: Operands) -> tuple[Predicate, ...] | None:
    """The two predicates that an instruction sets (operands 0 and 1), or None if it is not modelled."""
    base, modifiers = o.instruction.base, o.instruction.modifiers
    if base in ("ISETP", "UISETP") and len(o.instruction.operands) == 5 and not {"X", "EX"} & set(modifiers):
        compare = next(m for m in modifiers if m in _COMPARE)
        a, b, p = o.value(2), o.value(3), o.predicate(4)
        x, y = (a.words, b.words) if "U32" in modifiers else (a.signed(), b.signed())
        return _joined(_COMPARE[compare](x, y), p.flags, modifiers[-1], all_known(a, b, p))
    if base == "PSETP":
        first, second, third = (o.predicate(n) for n in (2, 3, 4))
        joined = _JOIN[modifiers[0]](first.flags, second.flags)
        return _joined(joined, third.flags, modifiers[1], all_known(first, second, third))
    if base in ("PLOP3", "UPLOP3"):
        inputs = [o.predicate(n) for n in (2, 3, 4)]
        flags = [each.flags for each in inputs]
        return tuple(Predicate(_table(flags, o.immediate(n)), all_known(*inputs)) for n in (5, 6))
    return None


def _table(inputs: list[Flags], table: int) -> Flags:
    """Bit n of the table is the result for inputs = bits 2, 1, 0 of n."""
    index = inputs[0] * 4 + inputs[1] * 2 + inputs[2] * 1
    return np.asarray(table >> index & 1, dtype=np.bool_)


def _joined(first: Flags, second: Flags, join: str, known: Flags) -> tuple[Predicate, Predicate]:
    return Predicate(_JOIN[join](first, second), known), Predicate(_JOIN[join](~first, second), known)
