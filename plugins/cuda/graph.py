"""A sequence of copies and launches that is run again and again: captured once as a CUDA graph, or call by call.

A captured sequence takes the host one call to replay. PyCUDA has no graphs, so the driver's functions are called
through ctypes on the handle of PyCUDA's stream. They are in every driver since CUDA 10.1 (`cuGraphInstantiateWithFlags`
since 11.4; before, `cuGraphInstantiate`).
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_ulonglong, c_void_p
from functools import cache
from typing import Any

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on with their own streams


class DirectLaunches:
    """What `enqueue` puts on a stream, done anew on every launch."""

    def __init__(self, cuda: Any, stream: Any, enqueue: Callable[[], None]) -> None:
        self.launch = enqueue

    def close(self) -> None:
        """Nothing is held."""


class CapturedGraph:
    """What `enqueue` put on a stream, as a CUDA graph. Made, launched and closed with its context current.

    It is done once before it is captured: a driver may load a kernel only when it is launched first, and then not while
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
            # The capture is broken off; what broke it is told, not that it is broken.
            _driver().cuStreamEndCapture(self._stream, byref(graph))
            raise
        self._call("cuStreamEndCapture", self._stream, byref(graph))
        try:
            self._instantiate(graph)
        finally:
            self._call("cuGraphDestroy", graph)

    def launch(self) -> None:
        """Put the whole sequence on the stream; raises the driver's error of this call or of earlier work."""
        self._call("cuGraphLaunch", self._handle, self._stream)

    def close(self) -> None:
        """Give the graph back; a second call does nothing."""
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
    """The exception that PyCUDA itself would raise for this result, with the same words."""
    text = c_char_p()
    _driver().cuGetErrorString(c_int(result), byref(text))
    kinds = {2: cuda.MemoryError, 701: cuda.LaunchError, 702: cuda.LaunchError, 719: cuda.LaunchError}
    words = text.value.decode() if text.value else f"error {result}"
    error: Exception = kinds.get(result, cuda.LogicError)(f"{function} failed: {words}")
    return error
