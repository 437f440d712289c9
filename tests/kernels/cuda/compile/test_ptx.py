"""Code that only a GPU executes: the expected PTX instruction on every architecture, as in the PTX manual.

The emulation runs C++ in place of inline PTX and of NVIDIA's intrinsics. These tests do not run PTX: they say that the
front end of the compiler writes exactly the expected instruction with the expected operands. What ptxas makes of it is
machine code, which a GPU alone proves (docs/kernels-proved.md).
"""

import re
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta_proof.baselines.source import FOLDER as BASELINES
from tests.kernels.cuda.compile.ptx import body_of

MATRIX = "{a, b, c, d}, {%s}, {%s}, {a, b, c, d}"
SUMS = "int d[4] = {in[0], in[1], in[2], in[3]};"
STORES = "out[0] = d[0], out[1] = d[1], out[2] = d[2], out[3] = d[3];"
HALVES = "{ .reg .s16 al, ah, bl, bh; mov.b32 {al, ah}, a; mov.b32 {bl, bh}, b; "
FLOATS = "__int_as_float(in[0]), __int_as_float(in[1])"

# header, statements -> PTX. Of multiply-adds on halves, low means bits 0 to 15: `mov.b32 {low, high}` unpacks so.
ANYWHERE = {
    ("include/device.cuh", "out[0] = permute(in[0], 0x9180);"): [
        "mov.u32 t0, 37248",
        "prmt.b32 t1, a, 0, t0",
        "store t1",
    ],
    ("include/device.cuh", "out[0] = multiply_add_low(in[0], in[1], in[2]);"): [
        HALVES + "mad.wide.s16 t0, al, bl, c; }",
        "store t0",
    ],
    ("include/device.cuh", "out[0] = multiply_add_high(in[0], in[1], in[2]);"): [
        HALVES + "mad.wide.s16 t0, ah, bh, c; }",
        "store t0",
    ],
    ("include/device.cuh", "out[0] = (int)set_twice(in[0], in[1], in[2]);"): [
        "lop3.b32 t0, a, b, c, 0xE8",  # of 0xF0, 0xCC and 0xAA: (a & b) | (a & c) | (b & c)
        "store t0",
    ],
    ("include/device.cuh", "out[0] = (int)set_oddly(in[0], in[1], in[2]);"): [
        "lop3.b32 t0, a, b, c, 0x96",  # a ^ b ^ c
        "store t0",
    ],
    ("include/device.cuh", "out[0] = __popc((unsigned)in[0]);"): ["popc.b32 t0, a", "store t0"],
    ("include/device.cuh", f"out[0] = __float_as_int(fma_down({FLOATS}, __int_as_float(in[2])));"): [
        "fma.rm.f32 t0, a, b, c",  # .rm: towards minus infinity
        "store t0",
    ],
    ("include/device.cuh", f"out[0] = __float_as_int(add_down({FLOATS}));"): [
        "mov.f32 t0, 0f3F800000",
        "fma.rm.f32 t1, a, t0, b",
        "store t1",
    ],
    ("include/device.cuh", f"out[0] = __float_as_int(__fmaf_rn({FLOATS}, __int_as_float(in[2])));"): [
        "fma.rn.f32 t0, a, b, c",
        "store t0",
    ],
    ("include/device.cuh", "out[0] = __float_as_int(__int2float_rn(in[0]));"): ["cvt.rn.f32.s32 t0, a", "store t0"],
    ("include/device.cuh", "out[0] = __byte_perm(in[0], in[1], 0x5410);"): [
        "mov.u32 t0, 21520",
        "prmt.b32 t1, a, b, t0",
        "store t1",
    ],
    ("include/device.cuh", "out[0] = __shfl_xor_sync(0xffffffffu, in[0], 4);"): [
        "mov.u32 t0, 31",
        "mov.u32 t1, 4",
        "mov.u32 t2, -1",
        "shfl.sync.bfly.b32 t3|t4, a, t1, t0, t2",
        "store t3",
    ],
    ("include/device.cuh", "__syncthreads();"): ["bar.sync 0"],
    ("include/device.cuh", "__syncwarp();"): ["bar.warp.sync -1"],
    ("include/device.cuh", "__threadfence();"): ["membar.gl"],
    ("include/device.cuh", "out[0] = *reinterpret_cast<const volatile unsigned*>(in);"): [
        "ld.volatile.global.u32 t0, [t1]",
        "store t0",
    ],
}
WITH_DP4A = {
    ("include/device.cuh", "out[0] = dot4<true>(in[0], in[1], in[2]);"): ["dp4a.s32.s32 t0, a, b, c", "store t0"],
    ("include/device.cuh", "out[0] = dot4<false>(in[0], in[1], in[2]);"): ["dp4a.u32.s32 t0, a, b, c", "store t0"],
}
WITH_MMA = {
    ("tensor/mma.cuh", f"{SUMS} multiply_{length}<{bits}, {flag}>(d, {arguments}); {STORES}"): [
        f"mma.sync.aligned.m16n8k{words * 128 // bits}.row.col.s32.{sign}{bits}.s{bits}.s32 {MATRIX % fragments}",
        "store a, b, c, d",
    ]
    for bits in (8, 4)
    for flag, sign in (("true", "s"), ("false", "u"))
    for length, words, arguments, fragments in (
        ("long", 2, "in[4], in[5], in[6], in[7], in[8], in[9]", ("e, f, g, h", "i, j")),
        ("short", 1, "in[4], in[5], in[6]", ("e, f", "g")),
    )
}
WITH_CLUSTERS = {
    ("one_launch/cluster.cuh", "wait_for_all_blocks();"): [
        "barrier.cluster.arrive.release.aligned",
        "barrier.cluster.wait.acquire.aligned",
    ],
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_functions_compile_to_the_expected_instructions(name: str, tmp_path: Path) -> None:
    architecture = ARCHITECTURES[name]
    expected = ANYWHERE | (WITH_DP4A if architecture.dot4 else {})
    if architecture.number >= 800:
        expected |= WITH_MMA
    if architecture.cluster_blocks > 1:
        expected |= WITH_CLUSTERS
    found = {key: body_of(*key, architecture, tmp_path) for key in expected}
    assert found == expected


def test_no_other_source_has_inline_ptx() -> None:
    counts = {
        str(path.relative_to(SOURCES)): path.read_text().count("asm")
        for path in SOURCES.rglob("*.cu*")
        if re.search(r"\basm\b", path.read_text())
    }
    assert counts == {"include/device.cuh": 7, "one_launch/cluster.cuh": 2, "tensor/mma.cuh": 2}


def hidden(text: str) -> list[str]:
    """Functions and macros of a source that have code for the emulation only, or for a GPU only."""
    found, name = [], ""
    for line in text.splitlines():
        if function := re.match(r"(?:template .*)?__device__ __forceinline__ \S+ (\w+)\(", line):
            name = function[1]
        if re.match(r"#\s*(?:if|elif)\w*\b.*EDGEMETA_EMULATION", line):
            found.append(name)
        if found and found[-1] == "" and (macro := re.match(r"#define (\w+)\(", line)):
            found[-1] = macro[1]
    return found


def is_expected(name: str) -> bool:
    """Whether the instructions of a function or intrinsic are expected above."""
    known = ANYWHERE | WITH_DP4A | WITH_MMA | WITH_CLUSTERS
    return any(re.search(rf"\b{name}\b", statements) for _, statements in known)


def test_all_code_that_the_emulation_does_not_run_is_tested() -> None:
    found = {name for path in SOURCES.rglob("*.cu*") for name in hidden(path.read_text())}
    untested = {"DYNAMIC_SHARED", "poll"}  # memory; a volatile load, which is tested as such
    assert {name for name in found if not is_expected(name)} == untested


def test_every_intrinsic_of_the_kernels_is_tested() -> None:
    """Intrinsics used in common code, which the emulation implements itself."""
    code = "\n".join(
        re.sub(r"//.*", "", path.read_text()) for base in (SOURCES, BASELINES) for path in base.rglob("*.cu*")
    )
    used = set(re.findall(r"\b(__(?!launch_bounds__|builtin)\w+)\(", code))
    untested = {"__ldg", "__fmaf_rd"}  # a load; fma_down is made of it
    assert {name for name in used if not is_expected(name)} == untested
