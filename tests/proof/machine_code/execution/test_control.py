"""Divergence, barriers, shuffles and memory of executed machine code: results, and what is refused."""

import numpy as np
import pytest

from edgemeta.model.layers import TensorType
from edgemeta_proof.machine_code.execution.words import ExecutionError
from tests.proof.machine_code.execution.fragments import Array, Fragment, Make

OTHERS = pytest.mark.gate("1 s each: the same for other generations")
EVERY = ["sm_53", *(pytest.param(name, marks=OTHERS) for name in ("sm_62", "sm_87", "sm_90"))]


@pytest.mark.parametrize("architecture", EVERY)
def test_divergent_loops_and_branches(fragment: Make, architecture: str) -> None:
    """Collatz: every lane loops as often as its number needs; a break and an early end in between."""
    made = fragment(
        "const int* in, int* out",
        """
        int i = blockIdx.x * blockDim.x + threadIdx.x, n = in[i], steps = 0;
        if (n == 0) return;
        #pragma unroll 1
        while (n != 1) {
          if (n & 1) { n = 3 * n + 1; if (steps > 40) { steps = -1; break; } } else n /= 2;
          ++steps;
        }
        if (i % 3 == 0) steps += 100;
        out[i] = steps;
        """,
        architecture,
    )
    numbers = np.arange(200, dtype=np.int32)
    _, found = made.launch(numbers, np.full(200, 7, np.int32), grid=(4, 1, 1), block=(50, 1, 1))

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            if n % 2:
                n = 3 * n + 1
                if count > 40:
                    return -1
            else:
                n //= 2
            count += 1
        return count

    expected = [7, *(steps(n) + 100 * (n % 3 == 0) for n in range(1, 200))]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("architecture", EVERY)
def test_shuffles(fragment: Make, architecture: str) -> None:
    made = fragment(
        "const int* in, int* out",
        """
        int i = threadIdx.x, x = in[i];
        out[i] = __shfl_xor_sync(0xffffffff, x, 5);
        out[32 + i] = __shfl_down_sync(0xffffffff, x, 3, 8);
        out[64 + i] = __shfl_up_sync(0xffffffff, x, 2, 16);
        out[96 + i] = __shfl_sync(0xffffffff, x, 7 - i, 8);
        """,
        architecture,
    )
    x, i = np.arange(100, 132, dtype=np.int32), np.arange(32)
    _, found = made.launch(x, np.zeros((4, 32), np.int32))
    np.testing.assert_array_equal(found[0], x[i ^ 5])
    np.testing.assert_array_equal(found[1], x[np.where(i % 8 + 3 < 8, i + 3, i)])
    np.testing.assert_array_equal(found[2], x[np.where(i % 16 - 2 >= 0, i - 2, i)])
    np.testing.assert_array_equal(found[3], x[i // 8 * 8 + (7 - i) % 8])


@pytest.mark.parametrize("architecture", EVERY)
def test_memory_of_every_width(fragment: Make, architecture: str) -> None:
    """Bytes, halves, 4, 8 and 16 bytes through shared memory, one value per thread, in reverse."""
    made = fragment(
        "const signed char* b, const unsigned short* h, const int4* v, int* out",
        """
        __shared__ int4 vectors[64]; __shared__ int2 pairs[64]; __shared__ int words[64];
        int i = threadIdx.x, j = 63 - i;
        vectors[i] = v[i]; pairs[i] = make_int2(b[i], h[i]); words[i] = b[64 + i];
        __syncthreads();
        int4 q = vectors[j]; int2 p = pairs[j];
        int values[7] = {q.x, q.y, q.z, q.w, p.x, p.y, words[j]};
        #pragma unroll
        for (int k = 0; k < 7; ++k) out[k * 64 + i] = values[k];
        """,
        architecture,
    )
    rng = np.random.default_rng(0)
    b = rng.integers(-128, 128, 128).astype(np.int8)
    h = rng.integers(0, 65536, 64).astype(np.uint16)
    v = rng.integers(-(1 << 31), 1 << 31, (64, 4)).astype(np.int32)
    found = made.launch(b, h, v, np.zeros((7, 64), np.int32), block=(64, 1, 1))[-1]
    np.testing.assert_array_equal(found, np.stack([*v.T, b[:64], h, b[64:]])[:, ::-1])


EXCHANGE = """
    __shared__ int words[64];
    words[threadIdx.x] = in[threadIdx.x];
    {barrier}
    out[threadIdx.x] = words[63 - threadIdx.x];
    {second}
    if (threadIdx.x < 64) words[threadIdx.x] = 1;
    __syncthreads();
    out[64 + threadIdx.x] = words[threadIdx.x];
"""


@pytest.mark.parametrize(
    ("barrier", "second", "reason"),
    [
        ("__syncthreads();", "__syncthreads();", None),
        ("", "__syncthreads();", "reads shared memory that another warp has written since the last barrier"),
        ("__syncthreads();", "", "writes shared memory that another warp has read since the last barrier"),
    ],
)
def test_a_missing_barrier_is_refused(fragment: Make, barrier: str, second: str, reason: str | None) -> None:
    made = fragment("const int* in, int* out", EXCHANGE.format(barrier=barrier, second=second))
    x = np.arange(64, dtype=np.int32)
    if reason:
        with pytest.raises(ExecutionError, match=reason):
            made.launch(x, np.zeros(128, np.int32), block=(64, 1, 1))
    else:
        _, found = made.launch(x, np.zeros(128, np.int32), block=(64, 1, 1))
        np.testing.assert_array_equal(found, [*x[::-1], *np.ones(64, int)])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("out[threadIdx.x] = in[threadIdx.x + 1];", "LDG.* at 0x.*reads 4 bytes at byte 128 of argument0, 128 bytes"),
        ("out[(int)threadIdx.x - 1] = in[threadIdx.x];", "STG.* at .*writes 4 bytes at byte -4 of argument1"),
        ("out[0] = threadIdx.x;", "different values to one address of global memory"),
        ("__shared__ int s[32]; out[threadIdx.x] = s[threadIdx.x ^ in[0]];", "no thread has written"),
        ("if (threadIdx.x < 16) __syncthreads(); out[threadIdx.x] = 1;", "without the others"),
        ("out[threadIdx.x] = atomicExch(out, 1);", "ATOM.*the modifier EXCH is not modelled"),
        ("out[threadIdx.x] = (int)sinf((float)in[threadIdx.x]);", "is not modelled"),
    ],
)
def test_errors_and_unknown_instructions_are_refused(fragment: Make, body: str, reason: str) -> None:
    with pytest.raises(ExecutionError, match=reason):
        fragment("const int* in, int* out", body).launch(np.zeros(32, np.int32), np.zeros(32, np.int32))


def test_a_shuffle_of_lanes_that_are_apart_is_refused(fragment: Make) -> None:
    """The compiler cannot know that the lanes are together, and tests it with BRA.CONV or BRA.DIV."""
    made = fragment(
        "const int* in, int* out",
        """
        int sum = in[threadIdx.x];
        for (int n = 0; n < in[threadIdx.x + 32]; ++n) sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        out[threadIdx.x] = sum;
        """,
        "sm_87",
    )
    assert {"BRA.CONV", "BRA.DIV"} & made.opcodes
    x = np.arange(32, dtype=np.int32)
    _, found = made.launch(np.concatenate([x, np.full(32, 2, np.int32)]), np.zeros(32, np.int32))
    np.testing.assert_array_equal(found, 2 * (x + (x ^ 1)))
    with pytest.raises(ExecutionError, match="apart"):
        made.launch(np.concatenate([x, x // 8]), np.zeros(32, np.int32))


def test_a_constant_cannot_be_written(fragment: Make) -> None:
    constant = np.zeros(32, np.int32)
    constant.flags.writeable = False
    with pytest.raises(ExecutionError, match="writes 4 bytes at byte 0 of argument0"):
        fragment("int* out", "out[threadIdx.x] = 1;").launch(constant)


def matrix_product(fragment: Make, architecture: str, bits: int, depth: int, kinds: str) -> Fragment:
    """One mma: every lane's registers of a, b and c are adjacent words."""
    parts = depth * bits // 128
    registers = ", ".join(f'"r"(a[l * {2 * parts} + {n}])' for n in range(2 * parts))
    others = ", ".join(f'"r"(b[l * {parts} + {n}])' for n in range(parts))
    names = [f"%{n}" for n in range(4 + 3 * parts + 4)]
    lists = [names[:4], names[4 : 4 + 2 * parts], names[4 + 2 * parts : 4 + 3 * parts], names[4 + 3 * parts :]]
    text = ", ".join("{" + ", ".join(each) + "}" for each in lists)
    return fragment(
        "const int* a, const int* b, const int* c, int* d",
        f"""
        int l = threadIdx.x, r0, r1, r2, r3;
        asm("mma.sync.aligned.m16n8k{depth}.row.col.s32.{kinds}.s32 {text};"
            : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
            : {registers}, {others}, "r"(c[l * 4]), "r"(c[l * 4 + 1]), "r"(c[l * 4 + 2]), "r"(c[l * 4 + 3]));
        d[l * 4] = r0; d[l * 4 + 1] = r1; d[l * 4 + 2] = r2; d[l * 4 + 3] = r3;
        """,
        architecture,
    )


def in_words(elements: Array, bits: int) -> Array:
    """Words int32 [...] of elements [..., 32 / bits], the first one lowest."""
    shifted = (elements & (1 << bits) - 1) << bits * np.arange(elements.shape[-1])
    return shifted.sum(axis=-1).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize(
    ("architecture", "bits", "depth", "kinds"),
    [
        pytest.param(name, bits, depth, f"{a}{bits}.{b}{bits}", marks=() if name == "sm_87" else OTHERS)
        for name, shapes in (("sm_87", ((8, 16), (8, 32), (4, 32), (4, 64))), ("sm_90", ((8, 16), (8, 32))))
        for bits, depth in shapes
        for a in "su"
        for b in "su"
    ],
)
def test_matrix_products(fragment: Make, architecture: str, bits: int, depth: int, kinds: str) -> None:
    """Fragments as PTX's mma of 8 and of 4 bits defines them; extreme values of both signs, and sums that wrap."""
    made = matrix_product(fragment, architecture, bits, depth, kinds)
    assert f"IMMA.168{depth}.{kinds.upper()}" in made.opcodes
    rng = np.random.default_rng(depth)
    kind_a, kind_b = (TensorType((1, 1, 1), bits, kind.startswith("s")) for kind in kinds.split("."))
    a = rng.integers(kind_a.lo, kind_a.hi + 1, (16, depth))
    b = rng.integers(kind_b.lo, kind_b.hi + 1, (depth, 8))
    c = rng.integers(-(1 << 31), 1 << 31, (16, 8))
    a[0], a[1], b[:, 0], b[:, 1] = kind_a.lo, kind_a.hi, kind_b.lo, kind_b.hi
    c[:2, :2] = [[0x7FFFFFFF, -0x80000000], [-0x80000000, 0x7FFFFFFF]]  # the products' signs, if both have one
    g, t = np.divmod(np.arange(32), 4)
    parts, per_word = depth * bits // 128, 32 // bits
    along = (t[:, None] * per_word + np.arange(per_word))[:, None] + 4 * per_word * np.arange(parts)[:, None]
    words_a = np.stack([a[(g + 8 * half)[:, None, None], along] for half in range(2)], 2).reshape(32, -1, per_word)
    words_b = b[along, g[:, None, None]]
    rows = g[:, None] + np.array([0, 0, 8, 8])
    columns = 2 * t[:, None] + np.array([0, 1, 0, 1])
    given = in_words(words_a, bits), in_words(words_b, bits), c[rows, columns].astype(np.int32)
    found = made.launch(*given, np.zeros((32, 4), np.int32))[-1]
    expected = a @ b + c
    assert (expected != expected.astype(np.int32)).any()
    np.testing.assert_array_equal(found, expected.astype(np.int32)[rows, columns])


@pytest.mark.parametrize("depth", [32, 64])
def test_hopper_has_no_products_of_four_bits(fragment: Make, depth: int) -> None:
    """The reason for `Architecture.tensor_int4`: the compiler calls a function that multiplies bytes."""
    opcodes = matrix_product(fragment, "sm_90", 4, depth, "u4.s4").opcodes
    assert {each for each in opcodes if each.startswith("IMMA")} == {f"IMMA.168{depth // 2}.U8.S8"}
    assert any(each.startswith("CALL") for each in opcodes)
