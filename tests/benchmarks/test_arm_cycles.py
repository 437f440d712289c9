"""Loops of a disassembly: which is innermost, what it multiplies, how often it runs for a window."""

import pytest

from benchmarks.arm_cycles import Prediction, innermost, products, table, unrolled

CODE = [
    (0x0, "mov\tx3, x4"),
    (0x4, "ldr\tq0, [x0], #16"),
    (0x8, "smull\tv1.8h, v0.8b, v2.8b"),
    (0xC, "smlal2\tv1.8h, v0.16b, v2.16b"),
    (0x10, "b.ne\t8"),
    (0x14, "smlal\tv4.4s, v1.4h, v3.h[0]"),
    (0x18, "sdot\tv5.4s, v6.16b, v7.4b[0]"),
    (0x1C, "subs\tx3, x3, #0x1"),
    (0x20, "cbnz\tx3, 4"),
    (0x24, "b\t30"),
]


def test_a_loop_is_unrolled_as_often_as_its_window_needs() -> None:
    assert innermost(CODE) == [(2, 5)]
    assert products(CODE) == 8 + 8 + 4 + 16
    path, count = unrolled(CODE, (2, 5), 20 + 3 * 16)
    assert count == 68
    assert [text for _, text in path] == [
        text for _, text in (*CODE[1:2], *CODE[2:5], *CODE[2:5], *CODE[2:5], *CODE[5:9])
    ]
    with pytest.raises(SystemExit, match="16 products of a loop do not make 50"):
        unrolled(CODE, (2, 5), 50)


def test_the_table_divides_by_the_peer_on_the_same_core() -> None:
    rows = [Prediction("tile", "ours", "A72", 16, 0.1, 0.05), Prediction("tile", "XNNPACK", "A72", 16, 0.2, 0.1)]
    assert table(rows).splitlines()[-1] == "| A72 | tile | 16 | 100.0 (50.0) | 200.0 (100.0) | 0.50 |"
