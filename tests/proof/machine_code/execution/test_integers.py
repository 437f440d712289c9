"""Integer instructions: PTX instructions on extreme and random words, executed as machine code, against NumPy int64.

The oracles are the definitions of the PTX ISA manual, chapter "Instruction set". A generation's compiler makes other
machine instructions of the same PTX: XMAD and LOP on sm_53, IMAD, LOP3 and IDP on sm_87 and sm_90.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.proof.machine_code.execution.fragments import Make, words

Wide = NDArray[np.int64]

MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Ptx:
    """An instruction with operands %1, %2, %3, or C++ of a, b, c; and its result from signed words."""

    text: str
    oracle: Callable[[Wide, Wide, Wide], Wide]
    is_wide: bool = False

    @property
    def statement(self) -> str:
        if "%d" not in self.text:
            return f"r = {self.text};"
        kind, result = ("l", "r") if self.is_wide else ("r", "s")
        text = self.text.replace("%d", "%0").replace("%a", "%1").replace("%b", "%2").replace("%c", "%3")
        after = "" if self.is_wide else " r = s;"
        return f'asm("{{ {text} }}" : "={kind}"({result}) : "r"(a), "r"(b), "r"(c));{after}'


def unsigned(x: Wide) -> Wide:
    return x & MASK


def half(x: Wide) -> Wide:
    return (x & 0xFFFF ^ 0x8000) - 0x8000


def bytes_of(x: Wide, signed: bool) -> list[Wide]:
    parts = [x >> 8 * n & 0xFF for n in range(4)]
    return [(part ^ 0x80) - 0x80 for part in parts] if signed else parts


def dot(x: Wide, y: Wide, c: Wide, signed: bool) -> Wide:
    return c + sum(p * q for p, q in zip(bytes_of(x, signed), bytes_of(y, True), strict=True))


def amount(x: Wide) -> Wide:
    return np.minimum(unsigned(x), 63)


def permuted(a: Wide, b: Wide, selector: int) -> Wide:
    sources = bytes_of(a, False) + bytes_of(b, False)
    total = np.zeros_like(a)
    for n in range(4):
        nibble = selector >> 4 * n & 15
        part = sources[nibble & 7]
        total |= (np.where(part & 0x80, 0xFF, 0) if nibble & 8 else part) << 8 * n
    return total


def field(a: Wide, place: int, length: int, signed: bool) -> Wide:
    bits = unsigned(a) >> place & ((1 << length) - 1)
    return np.where(bits >> (length - 1) & 1, bits - (1 << length), bits) if signed else bits


def ones(a: Wide) -> Wide:
    return sum((unsigned(a) >> n & 1 for n in range(32)), np.zeros_like(a))


def joined(a: Wide, b: Wide) -> Wide:
    return (a << 32) | unsigned(b)


def high_product(a: Wide, b: Wide, _: Wide) -> Wide:
    return (unsigned(a) * (b >> 16 & 0xFFFF) + (unsigned(a) * (b & 0xFFFF) >> 16)) >> 16


HALVES = "{ .reg .s16 al, ah, bl, bh; mov.b32 {al, ah}, %a; mov.b32 {bl, bh}, %b; mad.wide.s16 %d, "
UNSIGNED_HALVES = HALVES.replace("s16", "u16")

PTX = [
    Ptx("add.s32 %d, %a, %b;", lambda a, b, c: a + b),
    Ptx("sub.s32 %d, %a, %b;", lambda a, b, c: a - b),
    Ptx("mul.lo.s32 %d, %a, %b;", lambda a, b, c: a * b),
    Ptx("mul.hi.s32 %d, %a, %b;", lambda a, b, c: a * b >> 32),
    Ptx("mul.hi.u32 %d, %a, %b;", high_product),
    Ptx("mad.lo.s32 %d, %a, %b, %c;", lambda a, b, c: a * b + c),
    Ptx("mul.wide.s32 %d, %a, %b;", lambda a, b, c: a * b, is_wide=True),
    Ptx("(long long)((unsigned long long)(unsigned)a * (unsigned)b)",
        lambda a, b, c: (unsigned(a).view(np.uint64) * unsigned(b).view(np.uint64)).view(np.int64), is_wide=True),
    Ptx(HALVES + "al, bl, %c; }", lambda a, b, c: half(a) * half(b) + c),
    Ptx(HALVES + "ah, bh, %c; }", lambda a, b, c: (a >> 16) * (b >> 16) + c),
    Ptx(HALVES + "al, bh, %c; }", lambda a, b, c: half(a) * (b >> 16) + c),
    Ptx(UNSIGNED_HALVES + "ah, bl, %c; }", lambda a, b, c: (a >> 16 & 0xFFFF) * (b & 0xFFFF) + c),
    Ptx("a * 1000003 + c", lambda a, b, c: a * 1000003 + c),
    Ptx("a * -3 + c", lambda a, b, c: a * -3 + c),
    Ptx("(int)(short)a * -77 + c", lambda a, b, c: half(a) * -77 + c),
    Ptx("((a + b) + c) - 0x12345678", lambda a, b, c: a + b + c - 0x12345678),
    Ptx("a + b - 3", lambda a, b, c: a + b - 3),
    Ptx("a - b + 0x7fffd", lambda a, b, c: a - b + 0x7FFFD),
    Ptx("a + b - 0x80000", lambda a, b, c: a + b - 0x80000),
    Ptx("a + b + 0xffffd", lambda a, b, c: a + b + 0xFFFFD),
    Ptx("(a << 5) + b", lambda a, b, c: (a << 5) + b),
    Ptx("b - (a << 3)", lambda a, b, c: b - (a << 3)),
    Ptx("a / 7", lambda a, b, c: np.sign(a) * (np.abs(a) // 7)),
    Ptx("(int)((unsigned)a % 100u)", lambda a, b, c: unsigned(a) % 100),
    Ptx("(int)((unsigned)(unsigned short)a * 52429u >> 16)", lambda a, b, c: (a & 0xFFFF) * 52429 >> 16),
    Ptx("min.s32 %d, %a, %b;", lambda a, b, c: np.minimum(a, b)),
    Ptx("max.u32 %d, %a, %b;", lambda a, b, c: np.maximum(unsigned(a), unsigned(b))),
    Ptx("min(max(a, b), c)", lambda a, b, c: np.minimum(np.maximum(a, b), c)),
    Ptx("min(min(a, b), c)", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    Ptx("max(max(a, b), c)", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    Ptx("max(min(a, b), c)", lambda a, b, c: np.maximum(np.minimum(a, b), c)),
    Ptx("c - (a <= b)", lambda a, b, c: c - (a <= b)),
    Ptx("set.le.u32.u32 %d, %a, %b;", lambda a, b, c: -(unsigned(a) <= unsigned(b)).astype(np.int64)),
    Ptx("abs(a)", lambda a, b, c: np.abs(a)),
    Ptx("shl.b32 %d, %a, %b;", lambda a, b, c: np.where(amount(b) > 31, 0, a << np.minimum(amount(b), 31))),
    Ptx("shr.s32 %d, %a, %b;", lambda a, b, c: a >> np.minimum(amount(b), 31)),
    Ptx("shr.u32 %d, %a, %b;", lambda a, b, c: unsigned(a) >> amount(b)),
    Ptx("and.b32 %d, %a, %b;", lambda a, b, c: a & b),
    Ptx("(a & ~b) | (c ^ b)", lambda a, b, c: (a & ~b) | (c ^ b)),
    Ptx("lop3.b32 %d, %a, %b, %c, 0x5b;", lambda a, b, c: sum(
        (np.where(np.int64(n & 4), a, ~a) & np.where(np.int64(n & 2), b, ~b) & np.where(np.int64(n & 1), c, ~c))
        for n in range(8) if 0x5B >> n & 1)),
    Ptx("popc.b32 %d, %a;", lambda a, b, c: ones(a)),
    Ptx("(__popc(a & b) << 3) + c", lambda a, b, c: 8 * ones(a & b) + c),
    Ptx("prmt.b32 %d, %a, %b, 0x9180;", lambda a, b, c: permuted(a, b, 0x9180)),
    Ptx("prmt.b32 %d, %a, %b, 0xB3A2;", lambda a, b, c: permuted(a, b, 0xB3A2)),
    Ptx("prmt.b32 %d, %a, %b, 0x4342;", lambda a, b, c: permuted(a, b, 0x4342)),
    Ptx("prmt.b32 %d, %a, %b, 0x7f1d;", lambda a, b, c: permuted(a, b, 0x7F1D)),
    Ptx("bfe.s32 %d, %a, 5, 11;", lambda a, b, c: field(a, 5, 11, True)),
    Ptx("bfe.u32 %d, %a, 24, 8;", lambda a, b, c: field(a, 24, 8, False)),
    Ptx("bfi.b32 %d, %a, %b, 9, 7;", lambda a, b, c: (b & ~(127 << 9)) | (a & 127) << 9),
    Ptx("(int)(signed char)(a >> 8)", lambda a, b, c: field(a, 8, 8, True)),
    Ptx("(int)(short)-(short)a", lambda a, b, c: half(-half(a))),
    Ptx("a > b ? b : c", lambda a, b, c: np.where(a > b, b, c)),
    Ptx("(unsigned)a <= (unsigned)b ? a : c", lambda a, b, c: np.where(unsigned(a) <= unsigned(b), a, c)),
    Ptx("c == 0 ? a : b", lambda a, b, c: np.where(c == 0, a, b)),
    Ptx("(a > 3 && b != c) || a == b ? a : b", lambda a, b, c: np.where((a > 3) & (b != c) | (a == b), a, b)),
    Ptx("joined + c", lambda a, b, c: joined(a, b) + c, is_wide=True),
    Ptx("joined - (long long)(unsigned)c", lambda a, b, c: joined(a, b) - unsigned(c), is_wide=True),
    Ptx("joined - other", lambda a, b, c: joined(a, b) - joined(b, c), is_wide=True),
    Ptx("joined + other + third", lambda a, b, c: joined(a, b) + joined(b, c) + joined(c, a), is_wide=True),
    Ptx("joined + 0x7fffffff00000001ll", lambda a, b, c: joined(a, b) + 0x7FFFFFFF00000001, is_wide=True),
    Ptx("joined - 5", lambda a, b, c: joined(a, b) - 5, is_wide=True),
    Ptx("joined + 4ll * b", lambda a, b, c: joined(a, b) + 4 * b, is_wide=True),
    Ptx("min(max(joined, -128ll), 127ll)", lambda a, b, c: np.clip(joined(a, b), -128, 127), is_wide=True),
    Ptx("min(joined, other)", lambda a, b, c: np.minimum(joined(a, b), joined(b, c)), is_wide=True),
    Ptx("joined >> (c & 63)", lambda a, b, c: joined(a, b) >> (c & 63), is_wide=True),
    Ptx("joined << (c & 63)", lambda a, b, c: joined(a, b) << (c & 63), is_wide=True),
    Ptx("(long long)((unsigned long long)joined >> (c & 63))",
        lambda a, b, c: (joined(a, b).view(np.uint64) >> (c & 63).view(np.uint64)).view(np.int64), is_wide=True),
    Ptx("(long long)a * b + (1ll << (c & 31))", lambda a, b, c: a * b + (np.int64(1) << (c & 31)), is_wide=True),
]  # fmt: skip
DOT4 = [
    Ptx("dp4a.s32.s32 %d, %a, %b, %c;", lambda a, b, c: dot(a, b, c, True)),
    Ptx("dp4a.u32.s32 %d, %a, %b, %c;", lambda a, b, c: dot(a, b, c, False)),
]
FROM_VOLTA = [
    Ptx("joined < other ? joined : other + 1",
        lambda a, b, c: np.where(joined(a, b) < joined(b, c), joined(a, b), joined(b, c) + 1), is_wide=True),
]  # fmt: skip
COUNT = 4096
MORE = pytest.mark.gate("3 s each: the same for other generations")


@pytest.mark.parametrize(
    "architecture", ["sm_53", *(pytest.param(name, marks=MORE) for name in ("sm_62", "sm_61", "sm_87", "sm_90"))]
)
def test_ptx_instructions(fragment: Make, architecture: str) -> None:
    old = architecture in ("sm_53", "sm_61", "sm_62")
    chosen = PTX + ([] if architecture in ("sm_53", "sm_62") else DOT4) + ([] if old else FROM_VOLTA)
    body = "\n".join(
        f"{{ long long r; int s; {each.statement} out[{n} * {COUNT} + i] = {'r' if each.is_wide else '(int)r'}; }}"
        for n, each in enumerate(chosen)
    )
    made = fragment(
        "const int* in, long long* out",
        f"int i = blockIdx.x * 128 + threadIdx.x, s; (void)s;\n"
        f"int a = in[i], b = in[{COUNT} + i], c = in[{2 * COUNT} + i];\n"
        "long long joined = (long long)a << 32 | (unsigned)b, other = (long long)b << 32 | (unsigned)c;\n"
        f"long long third = (long long)c << 32 | (unsigned)a;\n{body}",
        architecture,
    )
    inputs = np.stack([words(COUNT, seed) for seed in range(3)])
    inputs[1, 6::7] = inputs[0, 6::7]
    inputs[2, 5::6] = inputs[1, 5::6]
    inputs[2, 4::9] = 0
    out = np.zeros((len(chosen), COUNT), np.int64)
    _, found = made.launch(inputs, out, grid=(COUNT // 128, 1, 1), block=(128, 1, 1))
    a, b, c = inputs.astype(np.int64)
    with np.errstate(over="ignore"):
        expected = [np.asarray(each.oracle(a, b, c)) for each in chosen]
    narrowed = [e if p.is_wide else e.astype(np.int32).astype(np.int64) for e, p in zip(expected, chosen, strict=True)]
    wrong = {p.text: int((f != e).sum()) for p, f, e in zip(chosen, found, narrowed, strict=True) if (f != e).any()}
    assert wrong == {}
