"""The checked mode detects code that is an error on a GPU, in any thread order, with its place; and nothing else."""

import numpy as np
import pytest

from tests.emulation.module import EmulationError

SHARED = "__shared__ int s[64]; s[threadIdx.x] = 0; __syncthreads(); "
WRONG = {
    # name: body of a kernel (const int *x [64], int *y [64]) with 64 threads, what the message says
    "shared race": (
        SHARED + "s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x ^ 32];",
        r"race: it (reads|writes) shared memory at byte \d+, which thread \d+ (wrote|read) .*\(.*kernel.cu:2\)",
    ),
    "race after a read": (
        SHARED + "y[threadIdx.x] = s[threadIdx.x ^ 32]; s[threadIdx.x] = 2;",
        "race: it (reads|writes) shared memory",
    ),
    "two writers": ("__shared__ int s[1]; s[0] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[0];", "race"),
    "race across a warp barrier": (
        SHARED + "s[threadIdx.x] = 1; __syncwarp(); y[threadIdx.x] = s[threadIdx.x ^ 32];",
        "race",
    ),
    "race in a warp": (
        SHARED + "s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x ^ 1];",
        "race",
    ),
    "race of one byte in a word": (
        SHARED + "reinterpret_cast<char *>(s)[threadIdx.x] = 1; if (threadIdx.x < 16) y[threadIdx.x] = s[threadIdx.x];",
        "race",
    ),
    "global race": ("y[threadIdx.x] = 1; y[(threadIdx.x + 1) % 64] = 2;", "race: it writes y at byte"),
    "atomic and plain": ("atomicAdd(y, 1); if (threadIdx.x == 40) y[0] = 3;", "race"),
    "unwritten shared memory": (
        "__shared__ int s[65]; s[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[threadIdx.x + 1];",
        "it reads shared memory at byte 256, which no thread of the block has written",
    ),
    "unwritten dynamic memory": (
        "DYNAMIC_SHARED(int, s); y[threadIdx.x] = s[threadIdx.x];",
        "it reads dynamic shared memory at byte",
    ),
    "read past the end": (
        "y[threadIdx.x] = x[threadIdx.x + 1];",
        r"out of bounds: it reads 4 bytes, 0 bytes after the end of x \(256 bytes\)",
    ),
    "read before the start": ("y[threadIdx.x] = x[int(threadIdx.x) - 3];", "bytes before x"),
    "write past the end": ("y[threadIdx.x * 2] = 1;", "out of bounds: it writes 4 bytes, .* after the end of y"),
    "dynamic memory past the end": ("DYNAMIC_SHARED(char, s); s[256 + threadIdx.x] = 1;", "out of bounds"),
    "write to a constant": ("const_cast<int *>(x)[threadIdx.x] = 1;", "writes x, a constant"),
    "misaligned vector": (
        "const int4 v = reinterpret_cast<const int4 *>(x + 1)[threadIdx.x % 8]; y[threadIdx.x] = v.x + v.w;",
        "misaligned",
    ),
    "index outside a local array": (
        "int a[4]; for (int i = 0; i < 4; ++i) a[i] = x[i]; y[threadIdx.x] = a[x[0] + threadIdx.x];",
        "undefined behaviour: an index outside its array, .*kernel.cu:2",
    ),
    "index outside a row": (
        "__shared__ int s[8][8]; s[0][threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[0][threadIdx.x];",
        "an index outside its array",
    ),
    "overflow": ("y[threadIdx.x] = x[0] + 2147483647 + (x[1] + 1);", "a signed sum overflows"),
    "shift": ("y[threadIdx.x] = 1 << (x[0] + threadIdx.x);", "a shift"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_detected_in_every_order(make, name: str) -> None:
    body, message = WRONG[name]
    kernel = make("const int *x, int *y", body, "checked")
    x, y = np.zeros(64, np.int32), np.zeros(64, np.int32)
    x.flags.writeable = False
    for order in (0, -1, 1):
        with pytest.raises(EmulationError, match=message.replace(" x", " argument0").replace(" y", " argument1")):
            kernel.launch(x, y, block=(64, 1, 1), shared_bytes=256, order=order)


def test_blocks_are_not_ordered(make) -> None:
    kernel = make("int *y", "if (blockIdx.x == 0) y[0] = 1; else y[1] = y[0];", "checked")
    for order in (0, -1):
        with pytest.raises(EmulationError, match="a thread of block"):
            kernel.launch(np.zeros(2, np.int32), grid=(2, 1, 1), block=(1, 1, 1), order=order)


def test_correct_kernels_raise_no_error(make) -> None:
    """Every way to be ordered: block barriers, warp barriers, shuffles, atomics, own data, blocks apart, new blocks."""
    kernel = make(
        "const int *x, int *y",
        """
        __shared__ int s[64];
        __shared__ short pairs[64];
        const int i = threadIdx.x, at = blockIdx.x * 64 + i;
        s[i] = x[i];
        __syncwarp();
        int v = s[i ^ 1] + x[(i + 1) % 64];
        __syncwarp();
        s[i ^ 2] = v;
        v += __shfl_xor_sync(0xffffffffu, v, 3);
        int own[4] = {v, 1, 2, 3};
        for (int k = 0; k < 3; ++k) own[k + 1] += own[k];
        pairs[i] = short(i);
        __syncthreads();
        if (i < 32) v += reinterpret_cast<int *>(pairs)[i];
        y[at] = own[3] + v + s[63 - i];
        atomicAdd(y + 128, 1);
        const int4 four = reinterpret_cast<const int4 *>(x)[i % 16];
        y[at] += four.x;
        __syncthreads();
        s[i] = 0;
        """,
        "checked",
    )
    results = set()
    for order in (0, -1, 1):
        _, y = kernel.launch(
            np.arange(64, dtype=np.int32), np.zeros(129, np.int32), grid=(2, 1, 1), block=(64, 1, 1), order=order
        )
        assert y[128] == 128
        results.add(y.tobytes())
    assert len(results) == 1


def test_writes_out_of_bounds_are_detected_without_the_checks(make) -> None:
    for body, side in (("y[-1 - int(threadIdx.x)] = 0;", "before"), ("y[1 + threadIdx.x] = 0;", "after the end of")):
        with pytest.raises(EmulationError, match=f"wrote {side} argument0"):
            make("int *y", body).launch(np.zeros(1, np.int32))
