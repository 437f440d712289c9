"""What instructions touch: operands of objdump's text, lines and pages, and a program followed step by step."""

import platform
import shutil
import sys

import numpy as np
import pytest

from benchmarks.cold_calls import (
    MARKED,
    REGISTERS,
    Operand,
    Touched,
    disassembled,
    joined,
    operands,
    stretches,
    touched,
)

RAX, RBX, RSP, RIP, FS = (REGISTERS.index(name) for name in ("rax", "rbx", "rsp", "rip", "fs_base"))
needs_tools = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("objdump") or not shutil.which("setarch"),
    reason="follows x86-64 by objdump and setarch",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov    0x10(%rax,%rbx,4),%rcx", [Operand(0x10, ((RAX, 1), (RBX, 4)), 8, False)]),
        ("mov    %rcx,-0x8(%rax,%rax,1)", [Operand(-8, ((RAX, 2),), 8, True)]),
        ("lea    0x10(%rax),%rcx", []),
        ("cs nopw 0x0(%rax,%rax,1)", []),
        ("push   %rbx", [Operand(-8, ((RSP, 1),), 8, True)]),
        ("ret", [Operand(0, ((RSP, 1),), 8, False)]),
        ("call   *0x8(%rax)", [Operand(-8, ((RSP, 1),), 8, True), Operand(8, ((RAX, 1),), 8, False)]),
        ("cmpb   $0x0,(%rax)", [Operand(0, ((RAX, 1),), 8, False)]),
        ("lock cmpxchg %rcx,(%rax)", [Operand(0, ((RAX, 1),), 8, True)]),
        ("mov    %fs:0x28,%rcx", [Operand(0x28, ((FS, 1),), 8, False)]),
        ("mov    0x2008(%rip),%rcx        # 0x200f", [Operand(0x200F, ((RIP, 1),), 8, False)]),
        ("vmovdqu64 %zmm0,(%rax){%k1}", [Operand(0, ((RAX, 1),), 64, True)]),
        ("vpdpwssd (%rax){1to16},%zmm1,%zmm0", [Operand(0, ((RAX, 1),), 8, False)]),
        ("{vex} vpdpbusd (%rax),%ymm1,%ymm0", [Operand(0, ((RAX, 1),), 32, False)]),
        ("vpmovzxbw (%rax),%ymm0", [Operand(0, ((RAX, 1),), 16, False)]),
        ("vpmovusdb %zmm0,(%rax)", [Operand(0, ((RAX, 1),), 16, True)]),
        ("vextracti128 $0x1,%ymm0,(%rax)", [Operand(0, ((RAX, 1),), 16, True)]),
        ("fld    %st(1)", []),
    ],
)
def test_operands_in_memory(text: str, expected: list[Operand]) -> None:
    assert operands(text) == expected


def test_a_gather_is_refused() -> None:
    with pytest.raises(ValueError, match="index"):
        operands("vpgatherdd (%rax,%zmm1,4),%zmm0{%k1}")


def test_lines_are_counted_once_and_by_part() -> None:
    rows = np.zeros((4, len(REGISTERS)), np.uint64)
    rows[:, RIP] = 0x1000, 0x2000, 0x1000, 0x2000
    rows[:, RAX] = 0x10000, 0x10020, 0x10000, 0x1FFF8
    found = touched(rows, ["vmovdqu (%rax),%ymm0", "vmovdqu %ymm0,(%rax)"], ["library", "Python"])
    own = Touched(2, {0x1000 // 64}, {0x10000 // 64}, set())
    end = {0x1FFC0 // 64, 0x20000 // 64}
    data = {0x10000 // 64} | end
    assert found == {"library": own, "libc": Touched(), "Python": Touched(2, {0x2000 // 64}, data, data)}
    assert joined(found).counts() == {
        "instructions": 4,
        "code_lines": 2,
        "read_lines": 0,
        "written_lines": 3,
        "code_pages": 2,
        "data_pages": 3,
    }


@needs_tools
def test_targets_are_relative_to_the_instruction() -> None:
    jump, load = b"\xc3" + bytes(15), bytes.fromhex("488b0501000000") + b"\xff" * 9
    texts = disassembled([jump, load])
    assert texts[0].split() == ["ret"]
    assert operands(texts[1]) == [Operand(8, ((RIP, 1),), 8, False)]


@needs_tools
def test_a_program_is_followed_from_stop_to_stop() -> None:
    code = "data = bytes(64 * 100)\ncall = lambda: data.count(1)\nfor _ in range(99): call()\n" + MARKED
    empty, call = (joined(each).counts() for each in stretches([sys.executable, "-c", code]))
    assert 0 < empty["instructions"] < call["instructions"]
    assert 100 <= call["read_lines"] - empty["read_lines"] < 200
