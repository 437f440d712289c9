"""Runs a function on hostile input in a child process, with a limit of memory and time.

The libraries that simplify ONNX are written in C++, compute constants whose size the file chooses, and may end the
process; a child that ends so is one error message.
"""

import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
_CHUNK = 1 << 20


class ChildError(Exception):
    """The child failed; the text is the reason."""


def in_child(function: Callable[[], _T], memory: int, seconds: float) -> _T:
    """The result of a function, which may take `memory` bytes more than this process has. Raises ChildError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(function, memory, writer)
    os.close(writer)
    try:
        data = _read(reader, time.monotonic() + seconds)
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        raise ChildError(f"it takes longer than {seconds:g} s to read") from None
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not data:
        raise ChildError("the program that simplifies it was ended by it")
    is_good, result = pickle.loads(data)  # noqa: S301 (written by this program's own child)
    if not is_good:
        raise ChildError(result)
    value: _T = result
    return value


def _answer(function: Callable[[], _T], memory: int, writer: int) -> None:
    """In the child: write whether it succeeded, with the result or the reason, and end."""
    code = 1
    try:
        size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        try:
            answer = pickle.dumps((True, function()))
        except MemoryError:
            answer = pickle.dumps((False, f"it takes more than {memory >> 20} MiB to read"))
        except Exception as error:  # noqa: BLE001 (protobuf, onnx and onnxslim raise anything on damaged files)
            answer = pickle.dumps((False, " ".join(str(error).split())[:200] or type(error).__name__))
        view = memoryview(answer)
        while view:
            view = view[os.write(writer, view[:_CHUNK]) :]
        code = 0
    finally:
        os._exit(code)


def _read(reader: int, until: float) -> bytes:
    parts: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            raise TimeoutError
        part = os.read(reader, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
