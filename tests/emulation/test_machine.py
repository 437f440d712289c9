"""Threads, barriers, shuffles, shared memory and thread orders behave as defined by CUDA."""

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.tool import CompilerError
from tests.emulation.module import EmulationError

ORDERS = (0, -1, 1, 2)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-(2**31), 2**31, shape, np.int64).astype(np.int32)


def test_every_thread_has_its_indexes(make) -> None:
    kernel = make(
        "int *out",
        """
        const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        out[block * blockDim.x * blockDim.y * blockDim.z + thread] += block * 1000 + thread;
        """,
    )
    for order in ORDERS:
        (out,) = kernel.launch(np.zeros((24, 30), np.int32), grid=(2, 3, 4), block=(5, 3, 2), order=order)
        np.testing.assert_array_equal(out, np.arange(24)[:, None] * 1000 + np.arange(30))


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_a_barrier_makes_writes_visible_in_every_thread_order(make, mode: str) -> None:
    kernel = make(
        "const int *x, int *y",
        """
        __shared__ int row[SIZE];
        DYNAMIC_SHARED(int, other);
        for (int round = 0; round < 3; ++round) {
          row[threadIdx.x] = x[round * SIZE + threadIdx.x];
          other[SIZE - 1 - threadIdx.x] = round;
          __syncthreads();
          y[round * SIZE + threadIdx.x] = row[(threadIdx.x + 37) % SIZE] + other[threadIdx.x];
          __syncthreads();
        }
        """,
        mode,
        SIZE=200,
    )
    x = numbers(3, 200) // 2
    for order in ORDERS:
        _, y = kernel.launch(x, np.zeros_like(x), block=(200, 1, 1), shared_bytes=800, order=order)
        np.testing.assert_array_equal(y, np.roll(x, -37, axis=1) + np.arange(3)[:, None])


def test_population_count(make) -> None:
    kernel = make("const unsigned *x, int *y", "y[threadIdx.x] = __popc(x[threadIdx.x]);")
    x = np.concatenate([numbers(62).view(np.uint32), np.array([0, 0xFFFFFFFF], np.uint32)])
    _, y = kernel.launch(x, np.zeros(64, np.int32), block=(64, 1, 1))
    np.testing.assert_array_equal(y, [bin(each).count("1") for each in x])


def test_a_missing_barrier_changes_the_result_with_the_order(make) -> None:
    kernel = make(
        "int *y",
        """
        __shared__ int row[64];
        row[threadIdx.x] = threadIdx.x;
        y[threadIdx.x] = row[threadIdx.x ^ 1];
        """,
    )
    results = {kernel.launch(np.zeros(64, np.int32), block=(64, 1, 1), order=order)[0].tobytes() for order in (0, -1)}
    assert len(results) == 2


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_shuffles(make, mode: str) -> None:
    kernel = make(
        "const int *x, int *y",
        """
        const int i = threadIdx.x, v = x[i];
        y[i] = __shfl_xor_sync(0xffffffffu, v, 5);
        y[64 + i] = __shfl_down_sync(0xffffffffu, v, 3);
        y[128 + i] = __shfl_up_sync(0xffffffffu, v, 3, 8);
        y[192 + i] = __shfl_sync(0xffffffffu, v, i + 1, 16);
        if (i % 32 < 8) y[256 + i] = __shfl_xor_sync(0xffu, v, 1);
        """,
        mode,
    )
    x = numbers(64)
    lane = np.arange(64) % 32
    base = np.arange(64) - lane
    for order in ORDERS:
        _, y = kernel.launch(x, np.zeros(320, np.int32), block=(64, 1, 1), order=order)
        np.testing.assert_array_equal(y[:64], x[base + (lane ^ 5)])
        np.testing.assert_array_equal(y[64:128], x[base + np.where(lane + 3 < 32, lane + 3, lane)])
        np.testing.assert_array_equal(y[128:192], x[base + np.where(lane % 8 >= 3, lane - 3, lane)])
        np.testing.assert_array_equal(y[192:256], x[base + lane // 16 * 16 + (lane + 1) % 16])
        np.testing.assert_array_equal(y[256:], np.where(lane < 8, x[base + (lane ^ 1)], 0))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("bits", "rows", "depth"), [(8, 8, 16), (8, 16, 16), (8, 16, 32), (4, 8, 32), (4, 16, 32), (4, 16, 64)]
)
def test_matrix_instructions(make, bits: int, rows: int, depth: int, signed: bool) -> None:
    """Fragments are filled by the PTX manual's formulas, matrix element by matrix element."""
    per_word = 32 // bits
    kernel = make(
        "const unsigned *a, const unsigned *b, int *d",
        """
        unsigned fa[ROWS * DEPTH * ELEMENT_BITS / 1024], fb[DEPTH * ELEMENT_BITS / 128];
        int fd[ROWS / 4];
        for (int i = 0; i < ROWS * DEPTH * ELEMENT_BITS / 1024; ++i) fa[i] = a[i * 32 + threadIdx.x];
        for (int i = 0; i < DEPTH * ELEMENT_BITS / 128; ++i) fb[i] = b[i * 32 + threadIdx.x];
        for (int i = 0; i < ROWS / 4; ++i) fd[i] = d[i * 32 + threadIdx.x];
        emulation::multiply_matrices<ELEMENT_BITS, IS_SIGNED>(fd, fa, fb);
        for (int i = 0; i < ROWS / 4; ++i) d[i * 32 + threadIdx.x] = fd[i];
        """,
        ELEMENT_BITS=bits,
        IS_SIGNED=int(signed),
        ROWS=rows,
        DEPTH=depth,
    )
    rng = np.random.default_rng(rows + depth)
    half = 1 << bits - 1
    a = rng.integers(-half, half, (rows, depth)) + (0 if signed else half)
    b = rng.integers(-half, half, (depth, 8))
    d = rng.integers(-1000, 1000, (rows, 8), np.int32)
    a[0], b[:, 0], d[0, 0] = (-half, -half, 0x7FFFFFFF) if signed else (2 * half - 1, -half, -0x80000000)  # it wraps
    fa = np.zeros((rows * depth // (32 * per_word), 32), np.uint32)
    fb = np.zeros((depth // (4 * per_word), 32), np.uint32)
    fd = np.zeros((rows // 4, 32), np.int32)
    mask = 2 * half - 1
    for lane in range(32):
        group, quad = divmod(lane, 4)
        for i in range(per_word):
            for r in range(len(fa)):
                row, column = group + (8 * (r % 2) if rows == 16 else 0), per_word * (quad + 4 * (r // 2)) + i
                fa[r, lane] |= np.uint32((int(a[row, column]) & mask) << bits * i)
            for r in range(len(fb)):
                fb[r, lane] |= np.uint32((int(b[per_word * (quad + 4 * r) + i, group]) & mask) << bits * i)
        for r in range(len(fd)):
            fd[r, lane] = d[group + 8 * (r // 2), 2 * quad + r % 2]
    *_, out = kernel.launch(fa, fb, fd, order=3)
    expected = (d + a @ b).astype(np.int32)
    for lane in range(32):
        for r in range(len(fd)):
            assert out[r, lane] == expected[lane // 4 + 8 * (r // 2), 2 * (lane % 4) + r % 2]


def test_intrinsics(make) -> None:
    kernel = make(
        "const int *x, int *y",
        """
        const int a = x[0], b = x[1];
        y[0] = emulation::dp4a_s8s8(a, b, -7);
        y[1] = emulation::dp4a_u8s8(a, b, -7);
        y[2] = __byte_perm(a, b, 0x5140);
        y[3] = __byte_perm(a, b, 0x8a9f);
        y[4] = __mulhi(a, b);
        y[5] = __umulhi(a, b);
        y[6] = __funnelshift_r(a, b, 12);
        y[7] = __float2int_rn(2.5f);
        atomicAdd(y + 8, 3);
        atomicMax(y + 9, int(threadIdx.x));
        """,
    )
    a, b = 0x7F80FF01, -0x7E81FE03  # b's bytes: FD 01 7E 81
    _, y = kernel.launch(np.array([a, b], np.int64).astype(np.int32), np.zeros(10, np.int32))
    y = y.astype(np.int64)
    a_bytes, b_bytes = a.to_bytes(4, "little"), (b & 0xFFFFFFFF).to_bytes(4, "little")
    s = lambda data: np.frombuffer(data, np.int8).astype(np.int64)  # noqa: E731
    assert y[0] == (s(a_bytes) * s(b_bytes)).sum() - 7
    assert y[1] == (np.frombuffer(a_bytes, np.uint8) * s(b_bytes)).sum() - 7
    both = a_bytes + b_bytes
    assert y[2] & 0xFFFFFFFF == int.from_bytes(bytes([both[0], both[4], both[1], both[5]]), "little")
    signs = [255 if both[i] & 128 else 0 for i in (7, 1, 2, 0)]
    assert y[3] & 0xFFFFFFFF == int.from_bytes(bytes(signs), "little")
    assert y[4] == a * b >> 32
    assert y[5] & 0xFFFFFFFF == a * (b & 0xFFFFFFFF) >> 32
    assert y[6] & 0xFFFFFFFF == ((b & 0xFFFFFFFF) << 32 | a) >> 12 & 0xFFFFFFFF
    assert list(y[7:]) == [2, 96, 31]


@pytest.mark.parametrize(
    ("body", "threads", "message"),
    [
        ("if (threadIdx.x < 20) return; __syncthreads();", 64, "but thread 0 of the block has ended"),
        ("if (threadIdx.x & 1) {\n__syncthreads();\n} else {\n__syncthreads(); }", 64, "waits in line"),
        (
            "if (threadIdx.x & 1) __syncwarp(); __syncthreads();",
            32,
            "mask 0xffffffff that other lanes of the mask do not reach",
        ),
        ("if (threadIdx.x & 1) __syncthreads(); else __syncwarp();", 32, "other lanes of the mask do not reach"),
        ("y[0] = __shfl_sync(0xff, y[0], 0);", 32, "whose mask 0x000000ff does not include it"),
    ],
)
def test_code_that_would_hang_or_crash_a_gpu_is_an_error(make, body: str, threads: int, message: str) -> None:
    kernel = make("int *y", body)
    for order in ORDERS:
        with pytest.raises(EmulationError, match=message):
            kernel.launch(np.zeros(64, np.int32), block=(threads, 1, 1), order=order)


def test_a_failed_module_runs_again(make) -> None:
    kernel = make("int *y", "if (y[0] && threadIdx.x) __syncthreads(); y[1 + threadIdx.x] = 7;")
    with pytest.raises(EmulationError):
        kernel.launch(np.ones(33, np.int32))
    (y,) = kernel.launch(np.zeros(33, np.int32))
    assert (y[1:] == 7).all()


def test_invalid_launches(make) -> None:
    kernel = make("int *y", "y[0] = 1;")
    for block in ((1025, 1, 1), (0, 1, 1)):
        with pytest.raises(EmulationError, match="1 to 1024 threads"):
            kernel.launch(np.zeros(1, np.int32), block=block)


def test_a_kernel_that_would_leave_its_stack_does_not_compile(make) -> None:
    with pytest.raises(CompilerError, match="frame size"):
        make("int *y", "volatile int big[100000]; for (int i = 0; i < 100000; ++i) big[i] = i;")


def test_a_compiler_error_is_reported(make) -> None:
    with pytest.raises(CompilerError, match="'nonsense' was not declared"):
        make("int *y", "y[0] = nonsense;")
