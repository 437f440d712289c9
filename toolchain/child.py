"""Runs a function that may fail in any way in a child process, with a limit of time and perhaps of memory.

Libraries that simplify ONNX are written in C++, compute constants whose size the file chooses, and may end the process;
so may a driver that is asked what it has. A child that ends so, or hangs, is one error message.
"""

import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
_CHUNK = 1 << 20
_ENDS_WITHIN = 2.0
"""Seconds that are waited for a child's end: one that hangs in a driver cannot be killed, and is left behind."""


class ChildError(Exception):
    """The child failed; the text is the reason."""


def in_child(function: Callable[[], _T], memory: int | None, seconds: float) -> _T:
    """The result of a function, which may take `memory` bytes more than this process has. Raises ChildError.

    At the end of the time the child and the processes that it has started are killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(function, memory, writer)
    os.close(writer)
    try:
        data = _read(reader, time.monotonic() + seconds)
    except TimeoutError:
        raise ChildError(f"it takes longer than {seconds:.3g} s") from None
    finally:
        os.close(reader)
        for kill in (os.killpg, os.kill):  # before its first step it has no group yet; after its end there is neither
            with suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
        status = _status(child)
    if not data:
        ended = f" ({signal.Signals(os.WTERMSIG(status)).name})" if status and os.WIFSIGNALED(status) else ""
        raise ChildError(f"its process was ended by it{ended}")
    is_good, result = pickle.loads(data)  # noqa: S301 (written by this program's own child)
    if not is_good:
        raise ChildError(result)
    value: _T = result
    return value


def _answer(function: Callable[[], _T], memory: int | None, writer: int) -> None:
    """In the child: write whether it succeeded, with the result or the reason, and end."""
    code = 1
    try:
        os.setsid()
        if memory is not None:
            size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        try:
            answer = pickle.dumps((True, function()))
        except MemoryError:
            limit = "there is" if memory is None else f"{memory >> 20} MiB"
            answer = pickle.dumps((False, f"it takes more memory than {limit}"))
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


def _status(child: int) -> int | None:
    """How a child has ended that is to end now; None of one that does not."""
    until = time.monotonic() + _ENDS_WITHIN
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > until:
            return status if ended else None
        time.sleep(0.001)
