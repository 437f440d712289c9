"""float32: FFMA, FADD, FMUL with all four roundings, and conversions. Denormals are kept."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.operands import real, target, test, word
from edgemeta_proof.machine_code.execution.wave import Step
from edgemeta_proof.machine_code.execution.words import Floats, Words, as_float, check_modifiers, of_float, unsigned
from edgemeta_proof.machine_code.sass import Instruction

Doubles: TypeAlias = NDArray[np.float64]

_ROUNDINGS = ("RM", "RP", "RZ")


def _rounding(i: Instruction, *others: str) -> str:
    found = check_modifiers(i, *_ROUNDINGS, *others) & set(_ROUNDINGS)
    return found.pop() if found else "RN"


def fused(i: Instruction) -> Step:
    """FFMA: a b + c, rounded once."""
    rounding, to, (a, b, c) = _rounding(i), target(i), (real(i, n) for n in (1, 2, 3))
    return lambda wave, mask: wave.set(to, fma(a(wave), b(wave), c(wave), rounding), mask)


def add(i: Instruction) -> Step:
    """FADD: a + b."""
    rounding, to, one = _rounding(i), target(i), np.ones(1, np.float32).view(np.int32)
    a, b = real(i, 1), real(i, 2)
    return lambda wave, mask: wave.set(to, fma(a(wave), one, b(wave), rounding), mask)


def multiply(i: Instruction) -> Step:
    """FMUL: a b. The added zero has the product's sign, so that a product of 0 keeps its own."""
    rounding, to, a, b = _rounding(i), target(i), real(i, 1), real(i, 2)
    sign = np.int32(-(1 << 31))
    return lambda wave, mask: wave.set(to, fma(a(wave), b(wave), (a(wave) ^ b(wave)) & sign, rounding), mask)


def minimum(i: Instruction) -> Step:
    """FMNMX: the minimum if the predicate holds, else the maximum; a NaN loses against a number, -0 is below +0."""
    check_modifiers(i)
    to, a, b, smallest = target(i), real(i, 1), real(i, 2), test(i, 3)

    def bits(x: Words, y: Words, least: NDArray[np.bool_]) -> Words:
        u, v = as_float(x), as_float(y)
        first = np.where(u == v, (x < y) == least, (u < v) == least)
        chosen = np.where(np.isnan(u), y, np.where(np.isnan(v) | first, x, y))
        return of_float(as_float(chosen))

    return lambda wave, mask: wave.set(to, bits(a(wave), b(wave), smallest(wave)), mask)


def fma(a: Words, b: Words, c: Words, rounding: str) -> Words:
    """The bits of a b + c with one rounding: RN, RM (down), RP (up) or RZ (towards 0).

    The product of two float32 is exact in float64. The sum's error is exact, too (Knuth's two-sum), and makes the sum
    odd where it is not exact: so a second rounding, to float32, equals a single one (Boldo and Melquiond 2008).
    """
    with np.errstate(all="ignore"):
        product: Doubles = as_float(a).astype(np.float64) * as_float(b).astype(np.float64)
        addend = as_float(c).astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        moved = bits + np.where((error > 0) == (total > 0), 1, -1)
        change = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
        odd = np.where(change, moved, bits).view(np.float64)
        result = _narrowed(odd, rounding)
        if rounding == "RM":  # a sum of 0 is -0 unless both parts are +0
            both_plus = ~np.signbit(product) & ~np.signbit(addend)
            result = np.where((odd == 0) & ~both_plus, np.float32(-0.0), result)
        return of_float(result)


def _narrowed(odd: Doubles, rounding: str) -> Floats:
    """float64 to float32 with a rounding; ties are only those of the exact value."""
    nearest = odd.astype(np.float32)
    if rounding == "RN":
        return nearest
    lower = np.where(nearest.astype(np.float64) > odd, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    upper = np.where(nearest.astype(np.float64) < odd, np.nextafter(nearest, np.float32(np.inf)), nearest)
    if rounding == "RZ":
        return np.where(odd > 0, lower, upper)
    return lower if rounding == "RM" else upper


def from_integer(i: Instruction) -> Step:
    """I2F.F32.S32, I2FP: a word to the nearest float32, ties to even."""
    modifiers = check_modifiers(i, "F32", "S32", "U32")
    to, a = target(i), word(i, 1)
    if "U32" in modifiers:
        return lambda wave, mask: wave.set(to, of_float(unsigned(a(wave)).astype(np.float32)), mask)
    return lambda wave, mask: wave.set(to, of_float(a(wave).astype(np.float32)), mask)
