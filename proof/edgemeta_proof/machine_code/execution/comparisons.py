"""Instructions that compare, and words of predicates: ISETP, ISET, FSETP, PSETP, PSET, PLOP3, P2R, R2P, VOTE."""

from collections.abc import Callable

import numpy as np

from edgemeta_proof.machine_code.execution.bits import COMPARE
from edgemeta_proof.machine_code.execution.operands import (
    Source,
    Test,
    operand,
    predicate_target,
    real,
    target,
    test,
    word,
)
from edgemeta_proof.machine_code.execution.wave import Step, Wave
from edgemeta_proof.machine_code.execution.words import Flags, Mask, as_float, check_modifiers, refuse
from edgemeta_proof.machine_code.sass import Instruction

_JOIN: dict[str, Callable[[Flags, Flags], Flags]] = {
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}


_STRICT = {"LT": np.less, "LE": np.less, "GT": np.greater, "GE": np.greater}


def _pair(i: Instruction, compared: Test, joined: Test) -> Step:
    """Write (comparison join p) to the first predicate, (not comparison) join p to the second."""
    join = next(_JOIN[each] for each in i.modifiers[::-1] if each in _JOIN)
    first, second = predicate_target(i, 0), predicate_target(i, 1)

    def step(wave: Wave, mask: Mask) -> None:
        holds, with_it = compared(wave), joined(wave)
        wave.decide(first, join(holds, with_it), mask)
        wave.decide(second, join(~holds, with_it), mask)

    return step


def compare(i: Instruction) -> Step:
    """ISETP; EX compares the upper words of 64 bits, where the last predicate is the comparison of the lower ones."""
    modifiers = check_modifiers(i, *COMPARE, *_JOIN, "U32", "EX")
    name = next(each for each in i.modifiers if each in COMPARE)
    a, b, joined = word(i, 2), word(i, 3), test(i, 4)
    below = test(i, 5) if "EX" in modifiers else None
    if len(i.operands) != (6 if below else 5):
        raise refuse(i, "its operands are not modelled")
    order = COMPARE[name]

    def compared(wave: Wave) -> Flags:
        x, y = a(wave), b(wave)
        if "U32" in modifiers:
            x, y = x.view(np.uint32), y.view(np.uint32)
        if below is None:
            return order(x, y)
        if name == "NE":
            return np.not_equal(x, y) | below(wave)
        strict = _STRICT[name](x, y) if name in _STRICT else np.zeros(1, np.bool_)
        return strict | (np.equal(x, y) & below(wave))

    return _pair(i, compared, joined)


def compare_to_word(i: Instruction) -> Step:
    """ISET.C.J: all ones where (a C b) J p, else zero."""
    modifiers = check_modifiers(i, *COMPARE, *_JOIN, "U32")
    if len(i.operands) != 4:
        raise refuse(i, "its operands are not modelled")
    order = next(COMPARE[each] for each in i.modifiers if each in COMPARE)
    join = next(_JOIN[each] for each in i.modifiers if each in _JOIN)
    kind = np.uint32 if "U32" in modifiers else np.int32
    to, a, b, joined = target(i), word(i, 1), word(i, 2), test(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        holds = join(order(a(wave).view(kind), b(wave).view(kind)), joined(wave))
        wave.set(to, -holds.astype(np.int32), mask)

    return step


def compare_floats(i: Instruction) -> Step:
    """FSETP with ordered comparisons: false with a NaN, but NE true without."""
    check_modifiers(i, "LT", "LE", "GT", "GE", "EQ", *_JOIN)
    order = next(COMPARE[each] for each in i.modifiers if each in COMPARE)
    a, b = real(i, 2), real(i, 3)
    return _pair(i, lambda wave: order(as_float(a(wave)), as_float(b(wave))), test(i, 4))


def join_predicates(i: Instruction) -> Step:
    """PSETP.J.K: (a J b) K c."""
    if len(i.modifiers) != 2 or not set(i.modifiers) <= set(_JOIN):
        raise refuse(i, "its modifiers are not modelled")
    first, a, b = _JOIN[i.modifiers[0]], test(i, 2), test(i, 3)
    return _pair(i, lambda wave: first(a(wave), b(wave)), test(i, 4))


def predicate_word(i: Instruction) -> Step:
    """PSET.J.K: all ones where (a J b) K c, else zero."""
    if len(i.modifiers) != 2 or not set(i.modifiers) <= set(_JOIN):
        raise refuse(i, "its modifiers are not modelled")
    first, second = (_JOIN[each] for each in i.modifiers)
    to, a, b, c = target(i), test(i, 1), test(i, 2), test(i, 3)

    def step(wave: Wave, mask: Mask) -> None:
        wave.set(to, -second(first(a(wave), b(wave)), c(wave)).astype(np.int32), mask)

    return step


def look_up_predicates(i: Instruction) -> Step:
    """PLOP3.LUT: two tables of three predicates; bit n is the result for inputs = bits 2, 1, 0 of n."""
    check_modifiers(i, "LUT")
    inputs = [test(i, n) for n in (2, 3, 4)]
    tables = [operand(i, n).value for n in (5, 6)]
    targets = [predicate_target(i, n) for n in (0, 1)]

    def step(wave: Wave, mask: Mask) -> None:
        a, b, c = (each(wave) for each in inputs)
        index = a * 4 + b * 2 + c * 1
        for number, table in zip(targets, tables, strict=True):
            wave.decide(number, (table >> index & 1).astype(np.bool_), mask)

    return step


def to_register(i: Instruction) -> Step:
    """P2R d, PR, a, bits: predicate n as bit n of d where `bits` says so, a's bits elsewhere; CC: `_save_flags`."""
    check_modifiers(i)
    if i.operands[1:] == ("CC", "RZ", "0xf"):
        return _save_flags(target(i))
    if i.operands[1] != "PR":
        raise refuse(i, f"the operand {i.operands[1]} is not modelled")
    to, a, bits = target(i), word(i, 2), operand(i, 3).value

    def step(wave: Wave, mask: Mask) -> None:
        words = a(wave) & ~np.int32(bits)
        for n in range(7):
            if bits >> n & 1:
                words = words | wave.predicates[n].astype(np.int32) << n
        wave.set(to, words, mask)

    return step


def _save_flags(to: int) -> Step:
    """P2R d, CC: the carry register, for R2P. The places of the bits are our own: code only saves and restores them."""

    def step(wave: Wave, mask: Mask) -> None:
        less, equal = (each.astype(np.int32) for each in wave.order)
        wave.set(to, wave.carry | less << 2 | equal << 3, mask)

    return step


def _restore_flags(source: Source) -> Step:
    def step(wave: Wave, mask: Mask) -> None:
        words = source(wave)
        carry, less, equal = words & 3, words & 4 != 0, words & 8 != 0
        old = wave.order
        if mask is not None:
            carry, less = np.where(mask, carry, wave.carry), np.where(mask, less, old[0])
            equal = np.where(mask, equal, old[1])
        wave.carry, wave.order = carry, (less, equal)

    return step


def from_register(i: Instruction) -> Step:
    """R2P PR, a, bits: predicates from the bits of a; CC: the flags that P2R saved."""
    check_modifiers(i)
    if i.operands[0] == "CC" and i.operands[2] == "0xf":
        return _restore_flags(word(i, 1))
    if i.operands[0] != "PR":
        raise refuse(i, f"the operand {i.operands[0]} is not modelled")
    a, bits = word(i, 1), operand(i, 2)
    if bits.number is not None or bits.bank is not None:
        raise refuse(i, "its operands are not modelled")

    def step(wave: Wave, mask: Mask) -> None:
        words = a(wave)
        for n in range(7):
            if bits.value >> n & 1:
                wave.decide(n, (words >> n & 1).astype(np.bool_), mask)

    return step
