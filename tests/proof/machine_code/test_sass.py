"""Disassembly and the counter: small kernels with known counts, for the machine code of every generation."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta_proof.machine_code import sass
from edgemeta_proof.machine_code.interpreter import ExecutionCounts, run
from edgemeta_proof.machine_code.sass import Code, Instruction, SassError, disassemble, disassemblers

pytestmark = pytest.mark.usefixtures("disassembler")

NANO = "sm_53"
EVERY = (  # sm_61 and sm_62 have the instructions of sm_53
    "sm_53",
    *(
        pytest.param(name, marks=pytest.mark.gate("10 s of processor time: the same with other instructions"))
        for name in ("sm_72", "sm_87", "sm_90")
    ),
)
Count = Callable[..., ExecutionCounts]


@pytest.fixture
def code(compiler: Compiler, write) -> Callable[[str, str], Code]:
    """The machine code of a kernel's body, whose parameters are `const int* in` and `int* out`."""

    def make(body: str, name: str = NANO) -> Code:
        head = 'extern "C" __global__ void kernel(const int* __restrict__ in, int* __restrict__ out)'
        return disassemble(compiler.build(write(f"{head} {{\n{body}\n}}"), ARCHITECTURES[name]).cubin, "kernel")

    return make


@pytest.fixture
def count(code: Callable[[str, str], Code]) -> Count:
    def make(body: str, name: str = NANO, grid: tuple[int, int] = (1, 1), threads: int = 64) -> ExecutionCounts:
        return run(code(body, name), grid, (threads, 1, 1))

    return make


@pytest.mark.parametrize("name", EVERY)
def test_straight_code_is_issued_once_by_every_warp_of_every_block(code, name: str) -> None:
    made = code("out[blockIdx.x * 96 + threadIdx.x] = in[threadIdx.x] * 3;", name)
    last = next(n for n, each in enumerate(made.instructions) if each.base == "EXIT")
    counted = run(made, (5, 2), (96, 1, 1))
    assert counted.warps == 30
    assert counted.warp_instructions == 30 * (last + 1)
    assert counted.longest == last + 1
    assert (counted.read_bytes, counted.written_bytes) == (960 * 4, 960 * 4)
    assert counted.loops == ()


def test_the_last_warp_of_a_block_may_have_fewer_lanes(count: Count) -> None:
    counted = count("out[threadIdx.x] = in[threadIdx.x];", threads=40)
    assert (counted.warps, counted.written_bytes) == (2, 160)
    assert counted.lanes["STG"] == 40
    assert counted.issued["STG"] == 2


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("turns", [2, 7, 100])
def test_a_loop_counts_its_iterations(count: Count, name: str, turns: int) -> None:
    body = f"int s = 0;\n#pragma unroll 1\nfor (int i = 0; i < {turns}; ++i) s += in[i * 64 + threadIdx.x];\n"
    counted = count(body + "out[threadIdx.x] = s;", name)
    assert counted.loops == (turns,)
    assert counted.issued["LDG"] == 2 * turns
    assert counted.read_bytes == turns * 256


@pytest.mark.parametrize("name", EVERY)
def test_loops_within_loops_are_counted_per_entry(count: Count, name: str) -> None:
    body = """
    int s = 0;
    #pragma unroll 1
    for (int i = 0; i < 5; ++i) {
      #pragma unroll 1
      for (int j = 0; j < 3; ++j) s = s * 5 + in[(i * 3 + j) * 64 + threadIdx.x];
      out[i * 64 + threadIdx.x] = s;
    }"""
    counted = count(body, name)
    assert sorted(counted.loops) == [3, 5]
    assert (counted.issued["LDG"], counted.issued["STG"]) == (2 * 15, 2 * 5)


@pytest.mark.parametrize("name", EVERY)
def test_a_loop_over_threads_counts_for_its_longest_warp(count: Count, name: str) -> None:
    body = "#pragma unroll 1\nfor (int i = threadIdx.x; i < 100; i += 32) out[i] = in[i];"
    counted = count(body, name, threads=32)
    assert counted.loops == (4,)
    assert (counted.issued["STG"], counted.written_bytes) == (4, 400)
    wide = count(body.replace("+= 32", "+= 64"), name)
    assert wide.loops == (2,)
    assert (wide.issued["STG"], wide.written_bytes) == (4, 400)


@pytest.mark.parametrize("name", EVERY)
def test_a_branch_counts_only_for_warps_that_take_it(count: Count, name: str) -> None:
    barriers = "__syncthreads(); __threadfence();" * 4  # too much for a guard: the compiler has to branch
    body = f"""
    if (threadIdx.x < {{limit}}) {{{{
      #pragma unroll 1
      for (int i = 0; i < 9; ++i) out[i * 64 + threadIdx.x] = in[i * 64 + threadIdx.x] / 3;
    }}}}
    {barriers}"""
    counts = {limit: count(body.format(limit=limit), name, threads=128).issued["STG"] for limit in (1, 32, 33, 64, 128)}
    assert counts == {1: 9, 32: 9, 33: 18, 64: 18, 128: 36}


@pytest.mark.parametrize("name", EVERY)
def test_both_sides_of_a_branch_count_for_a_diverged_warp(count: Count, name: str) -> None:
    loop = "#pragma unroll 1\nfor (int i = 0; i < {turns}; ++i) {to}[i * 64 + threadIdx.x] = in[i];\n"
    long, short = loop.format(turns=11, to="out"), loop.format(turns=4, to="out")
    body = "if ({condition}) {{\n" + long + "}} else {{\n" + short + "}}"
    parted = count(body.format(condition="threadIdx.x % 2"), name)
    agreed = count(body.format(condition="threadIdx.x / 32 % 2"), name)
    assert parted.issued["STG"] == 2 * (11 + 4)
    assert agreed.issued["STG"] == 11 + 4
    assert parted.written_bytes == agreed.written_bytes == 32 * 4 * (11 + 4)


@pytest.mark.parametrize("name", EVERY)
def test_the_warp_vote_after_a_branch_needs_no_call(count: Count, name: str) -> None:
    body = """
    __shared__ int tile[64];
    #pragma unroll 1
    for (int i = threadIdx.x; i < 256; i += 64) {
      tile[i % 64] = in[i];
      __syncwarp();
      if (i % 2) out[i] = tile[i % 64 ^ 1];
      __syncwarp();
    }"""
    counted = count(body, name)
    assert counted.loops == (4,)
    assert counted.written_bytes == 128 * 4
    assert counted.issued["STG"] == 8


def test_multiply_adds_of_16_bits_are_one_xmad_each(count: Count) -> None:
    body = """
    const short* x = (const short*)in + threadIdx.x;
    const short* w = (const short*)out + threadIdx.x;
    int s = 0;
    #pragma unroll 1
    for (int i = 0; i < 12; ++i) {
      #pragma unroll
      for (int j = 0; j < 8; ++j) s += (int)x[j * 64] * (int)w[j * 64];
      x += 512, w += 512;
    }
    out[threadIdx.x] = s;"""
    counted = count(body)
    assert counted.lanes["XMAD"] == 12 * 8 * 64
    assert counted.issued["XMAD"] == 12 * 8 * 2
    assert counted.read_bytes == 2 * 12 * 8 * 64 * 2


@pytest.mark.parametrize("name", ["sm_61", *EVERY[1:]])
def test_dot_products_are_idp(count: Count, name: str) -> None:
    body = """
    int s = 0;
    #pragma unroll
    for (int j = 0; j < 8; ++j)
      asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(s) : "r"(in[j * 64 + threadIdx.x]), "r"(in[j]));
    out[threadIdx.x] = s;"""
    assert count(body, name).issued["IDP"] == 8 * 2


@pytest.mark.parametrize("name", EVERY)
def test_a_branch_on_loaded_data_is_refused(count: Count, name: str) -> None:
    body = (
        "int n = in[threadIdx.x];\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) out[i * 64 + threadIdx.x] = in[i + n];"
    )
    with pytest.raises(SassError, match=r"depends on loaded data"):
        count(body, name)


def joined_half(compared: str) -> Code:
    """Code that joins the low half of the thread's number with loaded data above it, and exits by `compared`."""
    lines = [
        (None, "S2R", ("R12", "SR_TID.X")),
        (None, "LDG", ("R7", "[R2]")),
        (None, "XMAD.PSL.CLO", ("R7", "R7.H1", "0x1", "R12")),
        (None, "XMAD", ("R6", "R7", "0x2", "RZ")),
        (None, "XMAD", ("R5", "R7.H1", "0x2", "RZ")),
        (None, "XMAD", ("R4", "R7", "0x2", "R7")),
        (None, "ISETP.GE.AND", ("P0", "PT", compared, "0x40", "PT")),
        ("P0", "EXIT", ()),
        (None, "NOP", ()),
        (None, "EXIT", ()),
    ]
    return Code(tuple(Instruction(8 * n, guard, False, *rest) for n, (guard, *rest) in enumerate(lines)), {})


def test_a_known_low_half_below_loaded_data_stays_known() -> None:
    assert run(joined_half("R6"), (1, 1), (64, 1, 1)).issued["NOP"] == 1


@pytest.mark.parametrize("compared", ["R7", "R5", "R4"])
def test_loaded_data_above_a_known_half_stay_unknown(compared: str) -> None:
    with pytest.raises(SassError, match=r"depends on loaded data"):
        run(joined_half(compared), (1, 1), (64, 1, 1))


def quotient(value: int, divisor: int) -> int:
    """C's, towards zero."""
    return value // divisor if value >= 0 else -(-value // divisor)


def expression(rng: random.Random, depth: int) -> tuple[str, Callable[[int, int], int]]:
    """A C expression of unsigned 32-bit t and b, and the same in Python."""
    if depth == 0:
        constant = rng.choice([1, 3, 7, 10, 255, 1000, 65_537, 4_000_000_000])
        return rng.choice([("t", lambda t, b: t), ("b", lambda t, b: b), (f"{constant}u", lambda t, b, c=constant: c)])
    (left, f), (right, g) = expression(rng, depth - 1), expression(rng, depth - 1)
    number = rng.choice([2, 3, 5, 6, 7, 9, 12, 18, 34, 100])
    shift = rng.randrange(1, 31)

    def signed(value: int) -> int:
        return value - (1 << 32) if value >> 31 else value

    text, value = rng.choice(
        [
            (f"({left} + {right})", lambda t, b: f(t, b) + g(t, b) & 0xFFFFFFFF),
            (f"({left} - {right})", lambda t, b: f(t, b) - g(t, b) & 0xFFFFFFFF),
            (f"({left} * {right})", lambda t, b: f(t, b) * g(t, b) & 0xFFFFFFFF),
            (f"({left} & {right})", lambda t, b: f(t, b) & g(t, b)),
            (f"({left} ^ ~{right})", lambda t, b: f(t, b) ^ ~g(t, b) & 0xFFFFFFFF),
            (f"({left} | {number}u)", lambda t, b: f(t, b) | number),
            (f"({left} << {shift})", lambda t, b: f(t, b) << shift & 0xFFFFFFFF),
            (f"({left} >> {shift})", lambda t, b: f(t, b) >> shift),
            (f"(unsigned)((int){left} >> {shift})", lambda t, b: signed(f(t, b)) >> shift & 0xFFFFFFFF),
            (f"({left} & 0xffff) / {number}", lambda t, b: (f(t, b) & 0xFFFF) // number),
            (f"({left} & 0xffff) % {number}", lambda t, b: (f(t, b) & 0xFFFF) % number),
            (f"{left} / {number}", lambda t, b: f(t, b) // number),
            (f"{left} % {number}", lambda t, b: f(t, b) % number),
            (f"(unsigned)((int){left} / {number})", lambda t, b: quotient(signed(f(t, b)), number) & 0xFFFFFFFF),
            (f"min({left}, {right})", lambda t, b: min(f(t, b), g(t, b))),
            (
                f"(unsigned)max((int){left}, (int){right})",
                lambda t, b: max(signed(f(t, b)), signed(g(t, b))) & 0xFFFFFFFF,
            ),
            (f"(unsigned)(signed char){left}", lambda t, b: ((f(t, b) & 0xFF) ^ 0x80) - 0x80 & 0xFFFFFFFF),
            (f"(unsigned)(short){left}", lambda t, b: ((f(t, b) & 0xFFFF) ^ 0x8000) - 0x8000 & 0xFFFFFFFF),
            (f"({left} < {right} ? {left} : {number}u)", lambda t, b: f(t, b) if f(t, b) < g(t, b) else number),
        ]
    )
    return f"({text})", value


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", range(2, 7))
def test_conditions_on_thread_and_block_equal_c_arithmetic(count: Count, name: str, seed: int) -> None:
    rng = random.Random(seed)
    wanted, lines = 0, ["unsigned t = threadIdx.x, b = blockIdx.x;"]
    for n in range(6):
        text, value = expression(rng, 3)
        lines.append(f"if ((({text}) >> {n} & 1) != 0) out[{n} * 1024 + b * 64 + t] = {n};")
        wanted += 4 * sum(value(t, b) >> n & 1 for t in range(64) for b in range(5))
    assert count("\n".join(lines), name, grid=(5, 1)).written_bytes == wanted


def test_without_a_disassembler_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sass, "find_spec", lambda name: None)
    monkeypatch.setattr(sass, "toolkit_folders", lambda: [tmp_path])
    monkeypatch.setenv("PATH", str(tmp_path))
    disassemblers.cache_clear()
    with pytest.raises(SassError, match=r"no disassembler: .*triton==3\.6\.0.*edgemeta\[report\]"):
        disassemblers()
    disassemblers.cache_clear()


def test_an_invalid_cubin_is_refused() -> None:
    with pytest.raises(SassError, match="no disassembler can read this cubin") as failure:
        disassemble(b"\x7fELF and nothing else", "kernel")
    assert "\n" not in str(failure.value)


def test_a_kernel_missing_from_the_cubin_is_named(compiler: Compiler, write) -> None:
    build = compiler.build(write('extern "C" __global__ void kernel(int* out) { *out = 1; }'), ARCHITECTURES[NANO])
    with pytest.raises(SassError, match="no kernel missing"):
        disassemble(build.cubin, "missing")
