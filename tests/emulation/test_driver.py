"""The emulated driver keeps CUDA's promises, and no more; called through ctypes as PyCUDA calls it."""

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Source
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.driver import build

TEXT = """
extern "C" __global__ void twice(const int *x, int *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
extern "C" __global__ void stray(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x + 1]; }
extern "C" __global__ void beside(const int *x, int *y) { y[threadIdx.x + 1] = x[0]; }
"""
COUNT = 64
KINDS = ("contexts", "modules", "streams", "events", "graphs", "allocations", "device_bytes", "host_bytes")


class Failed(Exception):  # noqa: N818 - it carries a CUresult
    def __init__(self, name: str, result: int) -> None:
        super().__init__(f"{name}: {result}")
        self.result = result


class Cuda:
    """Calls by name; a result other than 0 raises Failed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __call__(self, name: str, *arguments: object) -> None:
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise Failed(name, result)

    def new(self, name: str, *arguments: object) -> c_void_p:
        handle = c_void_p()
        self(name, byref(handle), *arguments)
        return handle

    def live(self) -> dict[str, int]:
        counts = {kind: self.library.emu_live(kind.encode()) for kind in KINDS}
        return {kind: count for kind, count in counts.items() if count}

    def array(self, values: np.ndarray) -> c_ulonglong:
        address = c_ulonglong()
        self("cuMemAlloc_v2", byref(address), c_size_t(values.nbytes))
        self("cuMemcpyHtoD_v2", address, values.ctypes.data_as(c_void_p), c_size_t(values.nbytes))
        return address

    def page_locked(self, count: int) -> np.ndarray:
        pointer = self.new("cuMemHostAlloc", c_size_t(4 * count), c_uint(0))
        return np.frombuffer((c_int * count).from_address(pointer.value or 0), np.int32)

    def launch(self, function: c_void_p, *pointers: c_ulonglong, stream: c_void_p | None = None, threads: int = COUNT,
               shared: int = 0) -> None:  # fmt: skip
        parameters = (c_void_p * len(pointers))(*(ctypes.addressof(pointer) for pointer in pointers))
        self("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, shared, stream, parameters, None)


@pytest.fixture
def cuda() -> Iterator[Cuda]:
    """An initialized driver with a current context, and none left behind."""
    library = ctypes.CDLL(str(build()))
    library.emu_live.restype = library.emu_calls.restype = ctypes.c_long
    library.emu_set_device(1, 8, 7)
    cuda = Cuda(library)
    cuda("cuInit", c_uint(0))
    context = cuda.new("cuCtxCreate_v2", c_uint(0), c_int(0))
    yield cuda
    library.emu_forget()
    cuda("cuCtxDestroy_v2", context)
    assert cuda.live() == {}
    library.emu_set_device(0, 0, 0)


def image(folder: Path, entry: str, mode: str = "quick", architecture: str = "sm_87") -> bytes:
    (folder / "kernel.cu").write_text(TEXT)
    return EmulationCompiler(mode, folder).compile(Source("kernel.cu", entry, ()), ARCHITECTURES[architecture])


def function(cuda: Cuda, folder: Path, entry: str, mode: str = "quick") -> c_void_p:
    module = cuda.new("cuModuleLoadData", image(folder, entry, mode))
    return cuda.new("cuModuleGetFunction", module, entry.encode())


def test_the_emulated_device_is_named_as_such(cuda: Cuda) -> None:
    name = ctypes.create_string_buffer(100)
    cuda("cuDeviceGetName", name, c_int(100), c_int(0))
    assert name.value == b"edgemeta CPU emulation (not a GPU)"
    for image_of, result in ((b"\x7fELF" + bytes(100), 209), (bytes(100), 200)):
        with pytest.raises(Failed) as failed:
            cuda.new("cuModuleLoadData", image_of)
        assert failed.value.result == result


def test_a_module_of_another_architecture_is_refused(cuda: Cuda, tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        cuda.new("cuModuleLoadData", image(tmp_path, "twice", architecture="sm_53"))
    assert failed.value.result == 209
    assert "modules" not in cuda.live()


def test_without_a_device_it_does_not_start(cuda: Cuda) -> None:
    cuda.library.emu_set_device(0, 0, 0)
    assert cuda.library.cuInit(0) == 100


def test_work_is_executed_when_something_waits_for_it(cuda: Cuda, tmp_path: Path) -> None:
    kernel = function(cuda, tmp_path, "twice")
    x, y = cuda.array(np.arange(COUNT, dtype=np.int32)), cuda.array(np.zeros(COUNT, np.int32))
    source, target = cuda.page_locked(COUNT), cuda.page_locked(COUNT)
    source[:], target[:] = 7, -1
    stream = cuda.new("cuStreamCreate", c_uint(0))
    start, end = cuda.new("cuEventCreate", c_uint(0)), cuda.new("cuEventCreate", c_uint(0))
    cuda("cuEventRecord", start, stream)
    cuda("cuMemcpyHtoDAsync_v2", x, c_void_p(source.ctypes.data), c_size_t(4 * COUNT), stream)
    cuda.launch(kernel, x, y, stream=stream)
    cuda("cuMemcpyDtoHAsync_v2", c_void_p(target.ctypes.data), y, c_size_t(4 * COUNT), stream)
    cuda("cuEventRecord", end, stream)
    source[:] = 9  # too early: the copy has not been waited for
    assert (target == -1).all()
    assert cuda.library.cuEventQuery(end) == 600
    assert (target == 18).all()
    milliseconds = c_float()
    cuda("cuEventElapsedTime", byref(milliseconds), start, end)
    assert milliseconds.value > 0
    assert cuda.live() == {
        "contexts": 1, "modules": 1, "streams": 1, "events": 2, "allocations": 2, "device_bytes": 8 * COUNT,
        "host_bytes": 8 * COUNT,
    }  # fmt: skip


def test_pageable_memory_may_be_reused_at_once(cuda: Cuda) -> None:
    x = cuda.array(np.zeros(COUNT, np.int32))
    stream = cuda.new("cuStreamCreate", c_uint(0))
    source = np.full(COUNT, 5, np.int32)
    cuda("cuMemcpyHtoDAsync_v2", x, c_void_p(source.ctypes.data), c_size_t(4 * COUNT), stream)
    source[:] = 6
    target = np.zeros(COUNT, np.int32)
    cuda("cuMemcpyDtoH_v2", c_void_p(target.ctypes.data), x, c_size_t(4 * COUNT))  # waits for the stream
    assert (target == 5).all()


def test_a_graph_can_be_replayed(cuda: Cuda, tmp_path: Path) -> None:
    kernel = function(cuda, tmp_path, "twice")
    x, y = cuda.array(np.zeros(COUNT, np.int32)), cuda.array(np.zeros(COUNT, np.int32))
    source, target = cuda.page_locked(COUNT), cuda.page_locked(COUNT)
    stream = cuda.new("cuStreamCreate", c_uint(0))
    cuda("cuStreamBeginCapture_v2", stream, c_int(1))
    cuda("cuMemcpyHtoDAsync_v2", x, c_void_p(source.ctypes.data), c_size_t(4 * COUNT), stream)
    cuda.launch(kernel, x, y, stream=stream)
    cuda("cuMemcpyDtoHAsync_v2", c_void_p(target.ctypes.data), y, c_size_t(4 * COUNT), stream)
    graph = c_void_p()
    cuda("cuStreamEndCapture", stream, byref(graph))
    run = cuda.new("cuGraphInstantiateWithFlags", graph, c_uint64(0))
    cuda("cuGraphDestroy", graph)
    for value in (3, 4):
        source[:] = value
        cuda("cuGraphLaunch", run, stream)
        cuda("cuStreamSynchronize", stream)
        assert (target == 2 * value).all()
    assert cuda.live()["graphs"] == 1
    cuda("cuGraphExecDestroy", run)


def test_waiting_aborts_a_capture(cuda: Cuda) -> None:
    stream, graph = cuda.new("cuStreamCreate", c_uint(0)), c_void_p()
    cuda("cuStreamBeginCapture_v2", stream, c_int(1))
    assert cuda.library.cuStreamSynchronize(stream) == 900
    assert cuda.library.cuStreamEndCapture(stream, byref(graph)) == 901
    assert not graph


def test_injected_errors_occur_as_requested(cuda: Cuda) -> None:
    cuda.library.emu_fail(b"cuMemAlloc", 2, 2)
    cuda.array(np.zeros(4, np.int32))
    with pytest.raises(Failed) as failed:
        cuda.array(np.zeros(4, np.int32))
    assert failed.value.result == 2
    cuda.array(np.zeros(4, np.int32))  # once only
    cuda.library.emu_fail(b"cuCtxSynchronize", 1, 999)
    cuda.library.emu_forget()
    assert cuda.library.cuCtxSynchronize() == 0
    cuda.library.emu_fail(b"cuCtxSynchronize", 1, 999)
    assert cuda.library.cuCtxSynchronize() == 999
    assert cuda.library.cuMemAlloc_v2(byref(c_ulonglong()), c_size_t(4)) == 999  # a lost device stays lost
    assert cuda.library.emu_calls(b"cuCtxSynchronize") >= 2


@pytest.mark.parametrize(
    ("entry", "mode", "result", "words"),
    [
        ("stray", "checked", 719, "out of bounds: it reads 4 bytes, 0 bytes after the end of allocation of 256 bytes"),
        ("beside", "quick", 700, "beside wrote outside an allocation of 256 bytes"),
    ],
)
def test_a_failed_kernel_invalidates_the_context(
    cuda: Cuda, tmp_path: Path, capfd: pytest.CaptureFixture[str], entry: str, mode: str, result: int, words: str
) -> None:
    kernel = function(cuda, tmp_path, entry, mode)
    x, y = cuda.array(np.zeros(COUNT, np.int32)), cuda.array(np.zeros(COUNT, np.int32))
    stream = cuda.new("cuStreamCreate", c_uint(0))
    cuda.launch(kernel, x, y, stream=stream)
    assert cuda.library.cuStreamSynchronize(stream) == result
    assert cuda.library.cuMemFree_v2(x) == result
    assert words in capfd.readouterr().err


def test_invalid_pointers(cuda: Cuda, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = function(cuda, tmp_path, "twice")
    x = cuda.array(np.zeros(COUNT, np.int32))
    with pytest.raises(Failed) as failed:
        cuda.launch(kernel, x, c_ulonglong(4096))
    assert failed.value.result == 700
    assert "twice: argument 1 points to no device memory" in capfd.readouterr().err


def test_limits_of_a_launch(cuda: Cuda, tmp_path: Path) -> None:
    kernel = function(cuda, tmp_path, "twice")
    x, y = cuda.array(np.zeros(COUNT, np.int32)), cuda.array(np.zeros(COUNT, np.int32))
    for limits in ({"threads": 1025}, {"threads": 0}, {"shared": 49153}):
        with pytest.raises(Failed) as failed:
            cuda.launch(kernel, x, y, **limits)
        assert failed.value.result == 1
    cuda("cuFuncSetAttribute", kernel, c_int(8), c_int(163 << 10))
    cuda.launch(kernel, x, y, shared=49153)
    assert cuda.library.cuFuncSetAttribute(kernel, c_int(8), c_int((163 << 10) + 1)) == 1
    assert cuda.library.cuMemAlloc_v2(byref(c_ulonglong()), c_size_t(5 << 30)) == 2


def test_freed_memory_cannot_be_used(cuda: Cuda) -> None:
    x = cuda.array(np.zeros(COUNT, np.int32))
    cuda("cuMemFree_v2", x)
    assert cuda.library.cuMemFree_v2(x) == 1
    target = np.zeros(COUNT, np.int32)
    assert cuda.library.cuMemcpyDtoH_v2(c_void_p(target.ctypes.data), x, c_size_t(4)) == 700
