"""The report of ptxas is parsed correctly, and a launch that spills or does not fit is reported."""

from dataclasses import replace

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError
from edgemeta.kernels.cuda.compile.resources import Resources, parse_resources, violations
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Launch, Source

NANO, HOPPER = ARCHITECTURES["sm_53"], ARCHITECTURES["sm_90"]
FITS = Resources(registers=32, shared_bytes=1024, stack_bytes=0, spill_store_bytes=0, spill_load_bytes=0)

CUDA_10_LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_53'
ptxas info    : Function properties for other
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, 48 bytes smem, 344 bytes cmem[0]
ptxas info    : Compiling entry function 'kernel' for 'sm_53'
ptxas info    : Function properties for kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, 344 bytes cmem[0]
"""


def launch(threads: int, shared: int = 0) -> Launch:
    return Launch(("conv",), Source("kernel.cu", "kernel", ()), (1, 1), (threads, 1, 1), (), shared_bytes=shared)


def test_the_report_of_the_requested_kernel_is_parsed() -> None:
    assert parse_resources(CUDA_10_LOG, "kernel") == Resources(18, 0, 0, 0, 0)
    assert parse_resources(CUDA_10_LOG, "other") == Resources(255, 48, 8, 4, 4)
    with pytest.raises(CompilerError, match=r"no resource report of kern$"):
        parse_resources(CUDA_10_LOG, "kern")


def test_a_fitting_launch_has_no_violations() -> None:
    assert list(violations(launch(1024), FITS, NANO)) == []


@pytest.mark.parametrize(
    ("changed", "threads", "dynamic", "phrase"),
    [
        ({"spill_store_bytes": 4}, 32, 0, "spills: 4 bytes stored and 0 loaded"),
        ({"spill_load_bytes": 8}, 32, 0, "spills: 0 bytes stored and 8 loaded"),
        ({"stack_bytes": 16}, 32, 0, "stack frame of 16 bytes"),
        ({}, 32, 48 << 10, "needs 50176 bytes of shared memory, sm_53 has 49152"),
        ({"registers": 33}, 1024, 0, "needs 40960 registers for 1024 threads, sm_53 has 32768"),
    ],
)
def test_each_violation_is_named(changed: dict[str, int], threads: int, dynamic: int, phrase: str) -> None:
    (found,) = violations(launch(threads, dynamic), replace(FITS, **changed), NANO)
    assert phrase in found


def test_registers_of_a_larger_generation_suffice() -> None:
    assert list(violations(launch(1024), replace(FITS, registers=64), HOPPER)) == []


def test_a_real_spill_is_detected(compiler: Compiler, write) -> None:
    source = write(
        """
        extern "C" __global__ void __launch_bounds__(1024) kernel(int* out) {
          int held[64];
        #pragma unroll
          for (int i = 0; i < 64; ++i) held[i] = out[i * 1024 + threadIdx.x];
          __syncthreads();
        #pragma unroll
          for (int i = 0; i < 64; ++i) out[(i * 7 % 64) * 1024 + threadIdx.x] = held[i] * held[(i * 5 + 1) % 64];
        }"""
    )
    resources = compiler.build(source, NANO).resources
    assert resources.spill_store_bytes > 0
    assert any("spills" in phrase for phrase in violations(launch(1024), resources, NANO))
