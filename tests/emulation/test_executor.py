"""The executor provides the guarantees of the contract, and detects a kernel that relies on more."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Launch, LaunchPlan, Source
from edgemeta.model.layers import TensorType
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import Emulator
from tests.emulation.module import EmulationError

Run: TypeAlias = Callable[..., np.ndarray]
INPUT = Buffer("input", TensorType((2, 3, 4), zero_point=5), packed=True)
MIDDLE = Buffer("middle", TensorType((2, 3, 5), zero_point=-7), ring=(1, 2, 3, 4))
OUTPUT = Buffer("output", TensorType((1, 1, 6), bits=32), packed=True)


class Fresh:
    """Modules of one folder, compiled anew."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._compiler = EmulationCompiler(mode, folder)

    def get(self, source: Source, architecture: Architecture) -> bytes:
        return self._compiler.compile(source, architecture)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two launches: `first` writes the middle from the input, `second` the output from the middle."""

    def with_bodies(
        first: str, second: str, images: int = 2, mode: str = "quick", block: int = 32, shared_bytes: int = 0
    ) -> np.ndarray:
        parameters = "const signed char *x, signed char *m, int *y, const int *w"
        (tmp_path / "kernel.cu").write_text(
            f'extern "C" __global__ void first({parameters}) {{ const int n = blockIdx.z; {first} }}\n'
            f'extern "C" __global__ void second({parameters}) {{ const int n = blockIdx.z; {second} }}\n'
        )
        weights = Constant("weights", np.arange(6, dtype=np.int32))
        launches = tuple(
            Launch(
                (entry,),
                Source("kernel.cu", entry, ()),
                (1, 1),
                (block, 1, 1),
                (INPUT, MIDDLE, OUTPUT, weights),
                shared_bytes,
            )
            for entry in ("first", "second")
        )
        plan = LaunchPlan(ARCHITECTURES["sm_53"], launches, INPUT, (OUTPUT,))
        batch = np.arange(images * 24, dtype=np.int8).reshape(images, 2, 3, 4)
        return Emulator(plan, mode=mode, images=Fresh(tmp_path, mode)).run(batch)[0].reshape(images, -1)

    return with_bodies


AT = "((n * 6 + 1 + {row}) * 9 + 2 + {column}) * 8 + {channel}"


def test_launches_run_in_order_on_every_image(run: Run) -> None:
    got = run(
        f"if (threadIdx.x < 5) m[{AT.format(row=1, column=2, channel='threadIdx.x')}] = x[n * 24 + threadIdx.x];",
        f"if (threadIdx.x < 5) y[n * 6 + threadIdx.x] = m[{AT.format(row=1, column=2, channel='threadIdx.x')}];"
        "if (threadIdx.x == 5) y[n * 6 + 5] = w[5] + m[n * 6 * 9 * 8];",
        images=3,
    )
    np.testing.assert_array_equal(got, [[24 * n + i for i in range(5)] + [5 - 7] for n in range(3)])
    assert got.dtype == np.int32


def test_a_buffer_is_uninitialized_except_for_its_ring(run: Run) -> None:
    got = run("", "if (threadIdx.x < 6) y[n * 6 + threadIdx.x] = m[((n * 6 + 1) * 9 + 2 + threadIdx.x) * 8];")
    assert len(set(got[:, :3].ravel().tolist())) > 1
    assert (got[:, 3:] == -7).all()  # columns 3 and on are right of the inside


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("m[n * 6 * 9 * 8] = 0;", "first: a kernel wrote into the ring of middle"),
        ("m[((n * 6 + 1) * 9 + 5) * 8] = 0;", "first: a kernel wrote into the ring of middle"),
        ("m[2 * 6 * 9 * 8] = 0;", "first: a kernel wrote after the end of middle"),
        ("m[-1] = 0;", "first: a kernel wrote before middle"),
        ("__syncthreads(); if (threadIdx.x) return; __syncthreads();", "first: .* has ended"),
    ],
)
def test_a_kernel_with_too_many_resources_is_named(run: Run, first: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(first, "")


def test_a_launch_beyond_the_limits_of_the_architecture_is_refused(run: Run) -> None:
    with pytest.raises(EmulationError, match="first: 1056 threads in a block, at most 1024 can be"):
        run("", "", block=1056)
    with pytest.raises(EmulationError, match="of static and 49153 of dynamic shared memory; sm_53 has 49152"):
        run("", "", shared_bytes=49153)
    with pytest.raises(EmulationError, match="50000 bytes of static"):
        run("__shared__ char s[50000]; s[threadIdx.x] = 1; y[0] = s[0];", "")


def test_checked_runs_of_a_plan(run: Run) -> None:
    with pytest.raises(EmulationError, match=r"second: .*out of bounds: .* after the end of weights"):
        run("", "y[n * 6] = w[6 + threadIdx.x];", mode="checked")
