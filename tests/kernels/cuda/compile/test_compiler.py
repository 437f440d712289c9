"""Every compiler of this machine produces cubins; every failure is one error text."""

import re
from dataclasses import replace

import pytest

from edgemeta.kernels.cuda.compile import compiler as module
from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError, compilers, find_compiler
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES

KERNEL = """
extern "C" __global__ void kernel(int* out) {
  __shared__ int tile[SIZE];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[SIZE - 1 - threadIdx.x] * blockIdx.z;
}
"""
NANO = ARCHITECTURES["sm_53"]


def is_elf_with(cubin: bytes, entry: str) -> bool:
    return cubin.startswith(b"\x7fELF") and f".text.{entry}".encode() in cubin


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_wheel_compiles_for_every_architecture(compiler: Compiler, write, name: str) -> None:
    build = compiler.build(write(KERNEL, SIZE=256), ARCHITECTURES[name])
    assert is_elf_with(build.cubin, "kernel")
    assert build.resources.shared_bytes == 1024
    assert 2 <= build.resources.registers <= 32
    assert build.resources.spill_load_bytes == build.resources.spill_store_bytes == build.resources.stack_bytes == 0


def test_every_compiler_of_this_machine_compiles_for_its_targets(compiler: Compiler, write) -> None:
    found = list(compilers())
    assert found
    source = write(KERNEL, SIZE=64)
    for each in found:
        names = [name for name, architecture in ARCHITECTURES.items() if each.supports(architecture)]
        assert names, each
        build = each.build(source, ARCHITECTURES[names[-1]])
        assert is_elf_with(build.cubin, "kernel")
        assert build.resources.shared_bytes >= 256
        assert re.fullmatch(r"(nvcc|nvrtc) \d+\.\d+(\.\d+)?", each.version)


def test_every_compilation_reports_its_resources(compiler: Compiler, write, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC's own cache gives a cubin without a report where two kernels have the same PTX (CUDA 12.9 and newer)."""
    given = []
    run = compiler.tool._library.nvrtcCompileProgram

    def spy(program: object, count: int, words: list[bytes]) -> int:
        given.append([words[k] for k in range(count)])
        return int(run(program, count, words))

    monkeypatch.setattr(compiler.tool._library, "nvrtcCompileProgram", spy)
    for unused in (1, 2):
        assert compiler.build(write(KERNEL, SIZE=256, UNUSED=unused), NANO).resources.registers
    assert [b"--no-cache" in options for options in given] == [compiler.tool.release >= (12, 9)] * 2


def test_a_compiler_error_names_file_and_line(compiler: Compiler, write) -> None:
    with pytest.raises(CompilerError, match=r"kernel\.cu: nvrtc .*kernel\.cu\(2\): error: .*missing_name") as failure:
        compiler.compile(write('extern "C" __global__ void kernel(int* out) {\n  *out = missing_name;\n}\n'), NANO)
    assert "\n" not in str(failure.value)


def test_an_assembler_error_is_reported(compiler: Compiler, write) -> None:
    with pytest.raises(CompilerError, match=r"ptxas .*error"):
        compiler.compile(write('extern "C" __global__ void kernel(int* out) { asm("no_such.s32;"); *out = 1; }'), NANO)


def test_an_unsupported_architecture_is_refused_before_compilation(compiler: Compiler, write) -> None:
    kepler = replace(NANO, name="sm_30", number=300)
    assert not compiler.supports(kepler)
    with pytest.raises(CompilerError, match=r"cannot target sm_30: it supports sm_50 to sm_\d+"):
        compiler.compile(write(KERNEL, SIZE=1), kepler)
    with pytest.raises(CompilerError, match=r"no CUDA compiler for sm_30: .*supports only .*edgemeta\[cuda-compiler\]"):
        find_compiler(kepler)


def test_the_log_names_the_selected_compiler(compiler: Compiler, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="edgemeta.kernels.cuda.compile.compiler"):
        chosen = find_compiler(NANO)
    assert chosen.supports(NANO)
    assert f"CUDA kernels for sm_53 are compiled by {chosen}" in caplog.text


def test_without_any_compiler_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compilers", lambda: iter(()))
    with pytest.raises(CompilerError, match=r"no CUDA compiler: neither nvcc nor libnvrtc .*edgemeta\[cuda-compiler\]"):
        find_compiler()
