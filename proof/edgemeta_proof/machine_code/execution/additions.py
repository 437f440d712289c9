"""Integer additions, products, minima: IADD, XMAD, IMAD, ISCADD, LEA, IMNMX, IDP and their uniform forms."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgemeta_proof.machine_code.execution.operands import (
    Operand,
    Source,
    is_predicate,
    numbers,
    operand,
    predicate_target,
    raw,
    selected_half,
    sets_carry,
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
    signed,
    unsigned,
)
from edgemeta_proof.machine_code.sass import Instruction


def place(instruction: Instruction, index: int = 0) -> int:
    """The register that is written, whether or not the carry is, too."""
    found = operand(instruction, index)
    if found.number is None:
        raise refuse(instruction, f"the target {instruction.operands[index]} is no register")
    return found.number


def keep_carry(wave: Wave, carry: Wide, mask: Mask) -> None:
    """Write the carry register: 0, 1, or 2 from three operands."""
    words = low(carry)
    wave.carry = words if mask is None else np.where(mask, words, wave.carry)


def with_signs(i: Instruction) -> Instruction:
    """IADD3 of Maxwell with its immediate as a signed number: it has 20 bits, which nvdisasm prints without sign."""

    def signed_text(text: str) -> str:
        if re.fullmatch(r"0x[89a-f][0-9a-f]{4}", text) is None:
            return text
        return f"-{(1 << 20) - int(text, 16):#x}"

    return replace(i, operands=tuple(map(signed_text, i.operands)))


def add(i: Instruction) -> Step:
    """IADD, IADD32I, IADD3 of Maxwell: the sum of two or three words.

    A subtracted word is added as its complement plus 1, so that the carry says "no borrow"; with .X the carry of the
    word below stands for that 1. .RS: the sum of the first two, 33 bits, shifted right by 16, plus the third.
    """
    modifiers = check_modifiers(i, "X", "RS", "PO")
    count = len(i.operands) - 1
    if count not in (2, 3) or ("RS" in modifiers and (count != 3 or sets_carry(i))):
        raise refuse(i, "its operands are not modelled")
    if not modifiers and not sets_carry(i) and not any(".H" in each for each in i.operands):
        return _plain_sum(place(i), [word(i, n + 1) for n in range(count)])
    terms = [(operand(i, n + 1), raw(i, n + 1)) for n in range(count)]
    if any(term.inverse or term.absolute or term.suffix not in _PARTS for term, _ in terms):
        raise refuse(i, "its operands are not modelled")
    to, keeps, with_carry, plus = place(i), sets_carry(i), "X" in modifiers, int("PO" in modifiers)

    def step(wave: Wave, mask: Mask) -> None:
        values = [_addend(term, source(wave), with_carry) for term, source in terms]
        if "RS" in modifiers:
            wave.set(to, low((values[0] + values[1] >> 16) + values[2]), mask)
            return
        total = sum(values[1:], values[0]) + plus
        if with_carry:
            total = total + wave.carry
        if keeps:
            keep_carry(wave, total >> 32, mask)
        wave.set(to, low(total), mask)

    return step


def _plain_sum(to: int, sources: list[Source]) -> Step:
    def two(wave: Wave, mask: Mask) -> None:
        wave.set(to, sources[0](wave) + sources[1](wave), mask)

    def three(wave: Wave, mask: Mask) -> None:
        wave.set(to, sources[0](wave) + sources[1](wave) + sources[2](wave), mask)

    return two if len(sources) == 2 else three


_PARTS = ("", ".H0", ".H1")


def _addend(term: Operand, words: Words, with_carry: bool) -> Wide:
    if term.suffix:
        words = half(words, term.suffix == ".H1", False)
    return unsigned(~words) + int(not with_carry) if term.minus else unsigned(words)


def add3(i: Instruction) -> Step:
    """IADD3 of Volta and later: carries out in up to two predicates before the operands, carries in after them (.X)."""
    modifiers = check_modifiers(i, "X")
    first = next(n for n in range(1, len(i.operands)) if not is_predicate(i, n))
    outs = [predicate_target(i, n) for n in range(1, first)]
    carries = [test(i, n) for n in range(first + 3, len(i.operands))]
    terms = [(operand(i, n), raw(i, n)) for n in range(first, first + 3)]
    if ("X" in modifiers) != bool(carries) or any(t.absolute or t.suffix for t, _ in terms):
        raise refuse(i, "its operands are not modelled")
    if not outs and not carries:
        return _plain_sum(target(i), [word(i, n) for n in range(first, first + 3)])
    to = target(i)

    def step(wave: Wave, mask: Mask) -> None:
        total = np.zeros(1, np.int64)
        for term, source in terms:
            words = source(wave)
            minus = term.minus and not carries
            total = total + (unsigned(~words) if term.minus or term.inverse else unsigned(words)) + int(minus)
        for carry in carries:
            total = total + carry(wave)
        if len(outs) == 2:  # together they count carries
            wave.decide(outs[1], total >> 32 > 1, mask)
        if outs:
            wave.decide(outs[0], total >> 32 > 0, mask)
        wave.set(to, low(total), mask)

    return step


def xmad(i: Instruction) -> Step:
    """XMAD of Maxwell: d = a.16 * b.16 (<< 16 for PSL) + c; MRG puts b's low half into d's upper half.

    c is the word, its low (CLO) or high (CHI) half, or the word plus b << 16 (CBCC). CSFU is one of five instructions
    for the high word of a signed product: the others shift the unsigned sum of a.H1 b.H0 + (a.H0 b.H0 >> 16) and
    a.H0 b.H1 right by 16, where each negative summand is too great by 2**32; CSFU takes 2**16 off for each.
    """
    modifiers = check_modifiers(i, "PSL", "CBCC", "MRG", "CLO", "CHI", "CSFU", "S16", "U16")
    signs = [each == "S16" for each in i.modifiers if each in ("S16", "U16")] or [False, False]
    a, b = (selected_half(i, n + 1, signs[n]) for n in range(2))
    whole_a, whole_b, c, to = raw(i, 1), raw(i, 2), word(i, 3), target(i)
    if not modifiers - {"S16", "U16"}:
        return lambda wave, mask: wave.set(to, a(wave) * b(wave) + c(wave), mask)

    def step(wave: Wave, mask: Mask) -> None:
        product, addend = a(wave) * b(wave), c(wave)
        if "PSL" in modifiers:
            product = product << 16
        if "CLO" in modifiers or "CHI" in modifiers:
            addend = half(addend, "CHI" in modifiers, False)
        if "CBCC" in modifiers:
            addend = addend + (whole_b(wave) << 16)
        if "CSFU" in modifiers:
            x, y = whole_a(wave), whole_b(wave)
            for sign, other in ((x, y), (y, x)):
                addend = addend - np.where((sign < 0) & (other & 0xFFFF != 0), np.int32(1 << 16), np.int32(0))
        total = product + addend
        if "MRG" in modifiers:
            total = (total & 0xFFFF) | (whole_b(wave) << 16)
        wave.set(to, total, mask)

    return step


def multiply_add(i: Instruction) -> Step:
    """IMAD of Volta and later: d = a b + c; WIDE: a pair of registers, c too; HI: the upper word of such a sum."""
    modifiers = check_modifiers(i, "MOV", "SHL", "IADD", "U32", "WIDE", "HI", "X")
    if "X" in modifiers or len(i.operands) != 4:
        return _multiply_add_carried(i, modifiers)
    to, a, b, c = target(i), word(i, 1), word(i, 2), word(i, 3)
    if not modifiers & {"WIDE", "HI"}:
        return lambda wave, mask: wave.set(to, a(wave) * b(wave) + c(wave), mask)
    extend = unsigned if "U32" in modifiers else signed
    addend = _pair(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        total = extend(a(wave)) * extend(b(wave)) + addend(wave)
        if "HI" in modifiers:
            wave.set(to, high(total), mask)
        else:
            lower, upper = numbers(to, 2)
            wave.set(lower, low(total), mask)
            wave.set(upper, high(total), mask)

    return step


def _multiply_add_carried(i: Instruction, modifiers: set[str]) -> Step:
    """IMAD.X d, a, b, c, P: with a carry in."""
    if modifiers - {"X", "MOV", "SHL", "IADD", "U32"} or len(i.operands) != 5 or "X" not in modifiers:
        raise refuse(i, "its operands are not modelled")
    to, a, b, carry = target(i), word(i, 1), word(i, 2), test(i, 4)
    term, c = operand(i, 3), raw(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        addend = ~c(wave) if term.minus or term.inverse else c(wave)
        wave.set(to, a(wave) * b(wave) + addend + carry(wave).astype(np.int32), mask)

    return step


def _pair(i: Instruction, index: int) -> Callable[[Wave], Wide]:
    """A pair of registers, or a constant of 64 bits, or an immediate extended with zeros."""
    found = operand(i, index)
    if found.minus or found.inverse:
        raise refuse(i, f"the operand {i.operands[index]} is not modelled")
    lower = raw(i, index)
    if found.number is not None:
        upper_number = numbers(found.number, 2)[1]
        return lambda wave: pair(lower(wave), wave.registers[upper_number])
    if found.bank is not None:
        above = (found.bank[0], found.bank[1] + 4)
        return lambda wave: pair(lower(wave), wave.banks[above])
    return lambda wave: unsigned(lower(wave))


def scaled_add(i: Instruction) -> Step:
    """ISCADD, LEA: (a << shift) + b; LEA.HI: the upper word of (c:a << shift), plus b; .X adds the carry."""
    modifiers = check_modifiers(i, "HI", "X", "SX32")
    carry_in = test(i, len(i.operands) - 1) if is_predicate(i, len(i.operands) - 1) else None
    first = 2 if is_predicate(i, 1) else 1
    carry_out = predicate_target(i, 1) if first == 2 else None
    wide = "HI" in modifiers and "SX32" not in modifiers
    a, b = (word(i, first), operand(i, first + 1))
    if b.inverse or b.absolute or b.suffix:
        raise refuse(i, "its operands are not modelled")
    addend, c = raw(i, first + 1), word(i, first + 2) if wide else None
    shift = operand(i, first + 2 + int(wide))
    to, keeps = place(i), sets_carry(i)
    if shift.number is not None or shift.bank is not None:
        raise refuse(i, "its operands are not modelled")
    if not modifiers and not keeps and carry_out is None and not b.minus:
        return lambda wave, mask: wave.set(to, (a(wave) << shift.value) + addend(wave), mask)

    def step(wave: Wave, mask: Mask) -> None:
        words = a(wave)
        if c is not None:
            words = high(pair(words, c(wave)) << shift.value)
        elif "SX32" in modifiers:
            words = high(signed(words) << shift.value)
        else:
            words = words << shift.value
        total = unsigned(words) + _addend(b, addend(wave), "X" in modifiers)
        if "X" in modifiers:
            total = total + (carry_in(wave) if carry_in else wave.carry)
        if keeps:
            keep_carry(wave, total >> 32, mask)
        if carry_out is not None:
            wave.decide(carry_out, total >> 32 > 0, mask)
        wave.set(to, low(total), mask)

    return step


def _less(x: Words, y: Words, is_unsigned: bool) -> Flags:
    return x.view(np.uint32) < y.view(np.uint32) if is_unsigned else x < y


def minimum(i: Instruction) -> Step:
    """IMNMX, VIMNMX: the minimum if the predicate holds, else the maximum.

    XHI and XLO are the words of a 64-bit minimum or maximum: XHI compares the upper words (signed) and remembers the
    order in the carry register; XLO takes the same side, or compares the lower words if the upper ones are equal.
    """
    modifiers = check_modifiers(i, "U32", "XHI", "XLO")
    to, a, b, smallest = place(i), word(i, 1), word(i, 2), test(i, 3)
    is_unsigned = "U32" in modifiers
    if sets_carry(i) != ("XHI" in modifiers):
        raise refuse(i, "its operands are not modelled")

    def step(wave: Wave, mask: Mask) -> None:
        x, y = a(wave), b(wave)
        less = _less(x, y, is_unsigned)
        if "XLO" in modifiers:
            less = wave.order[0] | (wave.order[1] & less)
        if "XHI" in modifiers:
            above = (less, x == y)
            old = wave.order
            wave.order = above if mask is None else (np.where(mask, less, old[0]), np.where(mask, x == y, old[1]))
        wave.set(to, np.where(less == smallest(wave), x, y), mask)

    return step


def minimum_of_three(i: Instruction) -> Step:
    """VIMNMX3: the minimum of a, b and c if the predicate holds, else the maximum; signed."""
    check_modifiers(i)
    to, (a, b, c), smallest = target(i), (word(i, n) for n in (1, 2, 3)), test(i, 4)

    def step(wave: Wave, mask: Mask) -> None:
        x, y, z = a(wave), b(wave), c(wave)
        least, greatest = np.minimum(np.minimum(x, y), z), np.maximum(np.maximum(x, y), z)
        wave.set(to, np.where(smallest(wave), least, greatest), mask)

    return step


def minimum_of_sum(i: Instruction) -> Step:
    """VIADDMNMX: the minimum of a + b and c if the predicate holds, else the maximum."""
    is_unsigned = "U32" in check_modifiers(i, "U32")
    to, (a, b, c), smallest = target(i), (word(i, n) for n in (1, 2, 3)), test(i, 4)

    def step(wave: Wave, mask: Mask) -> None:
        x, y = a(wave) + b(wave), c(wave)
        wave.set(to, np.where(_less(x, y, is_unsigned) == smallest(wave), x, y), mask)

    return step


def dot4(i: Instruction) -> Step:
    """IDP.4A: c plus four products of bytes; the modifiers say whether a's and b's are signed."""
    modifiers = check_modifiers(i, "4A", "S8", "U8")
    signs = [each == "S8" for each in i.modifiers if each in ("S8", "U8")]
    if "4A" not in modifiers or len(signs) != 2:
        raise refuse(i, "its modifiers are not modelled")
    to, a, b, c = target(i), word(i, 1), word(i, 2), word(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        x, y, total = a(wave), b(wave), c(wave)
        for n in range(4):
            total = total + byte(x, n, signs[0]) * byte(y, n, signs[1])
        wave.set(to, total, mask)

    return step


def absolute(i: Instruction) -> Step:
    """IABS: the absolute value; of -2**31 itself."""
    check_modifiers(i)
    to, a = target(i), word(i, 1)
    return lambda wave, mask: wave.set(to, np.abs(a(wave)), mask)
