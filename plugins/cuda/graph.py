"""Repeated sequences of copies and launches: captured once as a CUDA graph, or issued call by call.

A captured sequence is replayed by one host call. PyCUDA does not support graphs, so the driver's functions are called
through ctypes on the handle of PyCUDA's stream. Every driver since CUDA 10.1 has them (`cuGraphInstantiateWithFlags`
since 11.4; before that `cuGraphInstantiate`).
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_ulonglong, c_void_p
from functools import cache
from typing import Any

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may continue to use their own streams


class DirectLaunches:
    """Calls `enqueue` on every launch."""

    def __init__(self, cuda: Any, stream: Any, enqueue: Callable[[], None]) -> None:
        self.launch = enqueue

    def close(self) -> None:
        """Does nothing: there are no resources."""


class CapturedGraph:
    """The work that `enqueue` puts on a stream, as a CUDA graph. Created, launched and closed with its context current.

    `enqueue` runs once before the capture: a driver may load a kernel at its first launch, which is not possible while
    a stream is captured.
    """

    def __init__(self, cuda: Any, stream: Any, enqueue: Callable[[], None]) -> None:
        self._cuda = cuda
        self._stream = c_void_p(stream.handle)
        self._handle = c_void_p()
        graph = c_void_p()
        enqueue()
        stream.synchronize()
        self._call("cuStreamBeginCapture_v2", self._stream, c_int(_THREAD_LOCAL))
        try:
            enqueue()
        except BaseException:
            # End the capture and report the original error, not that of the capture.
            _driver().cuStreamEndCapture(self._stream, byref(graph))
            raise
        self._call("cuStreamEndCapture", self._stream, byref(graph))
        try:
            self._instantiate(graph)
        finally:
            self._call("cuGraphDestroy", graph)

    def launch(self) -> None:
        """Put the sequence on the stream; raises the driver's error of this call or of earlier work."""
        self._call("cuGraphLaunch", self._handle, self._stream)

    def close(self) -> None:
        """Destroy the graph; a second call does nothing."""
        if self._handle:
            handle, self._handle = self._handle, c_void_p()
            self._call("cuGraphExecDestroy", handle)

    def _instantiate(self, graph: c_void_p) -> None:
        if hasattr(_driver(), "cuGraphInstantiateWithFlags"):
            self._call("cuGraphInstantiateWithFlags", byref(self._handle), graph, c_ulonglong(0))
        else:
            no_log = (c_void_p(), c_char_p(), ctypes.c_size_t(0))
            self._call("cuGraphInstantiate", byref(self._handle), graph, *no_log)

    def _call(self, function: str, *arguments: Any) -> None:
        result = getattr(_driver(), function)(*arguments)
        if result != 0:
            raise _error(self._cuda, function, result)


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _error(cuda: Any, function: str, result: int) -> Exception:
    """The exception that PyCUDA would raise for this result, with the same text."""
    text = c_char_p()
    _driver().cuGetErrorString(c_int(result), byref(text))
    kinds = {2: cuda.MemoryError, 701: cuda.LaunchError, 702: cuda.LaunchError, 719: cuda.LaunchError}
    reason = text.value.decode() if text.value else f"error {result}"
    error: Exception = kinds.get(result, cuda.LogicError)(f"{function} failed: {reason}")
    return error
