"""The service's end of a stream's process: questions, answers, and pictures in shared memory."""

import atexit
import fcntl
import mmap
import os
import select
import signal
import socket
import subprocess
import threading
from contextlib import suppress

import numpy as np

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.capture.sources.stream.messages import (
    LARGEST_MESSAGE,
    LARGEST_PIXELS,
    NEXT,
    Message,
    Picture,
    Request,
    packed,
    unpacked,
)
from edgemeta.daemon.runtime.own_python import own_python

ANSWERS_WITHIN = 20.0
"""Seconds; the first answer takes as long as PyAV takes to load."""
PYTHON, OWN_VARIABLES = own_python()
COMMAND = (*PYTHON, "-m", "edgemeta.daemon.capture.sources.stream.forkserver_main")


class ForkServer:
    """Starts and ends processes of streams. Any thread may call it; a fork server that has died is started again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, connection: socket.socket, memory: int) -> int:
        """Start a process that has these descriptors; return its id. Raises OSError, for example at a limit."""
        with self._lock:
            try:
                answer = self._ask(b"start", [connection.fileno(), memory])
            except OSError:
                self._end()
                answer = self._ask(b"start", [connection.fileno(), memory])
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def end(self, process: int) -> int | None:
        """End a process; return its exit status, negative for a signal. None if the fork server has died."""
        with self._lock:
            if self._control is None:
                return None
            try:
                return self._ask(str(process).encode(), [])
            except OSError:
                self._end()
                return None

    def _ask(self, packet: bytes, descriptors: list[int]) -> int:
        if self._control is None:
            self._control = self._launch()
        socket.send_fds(self._control, [packet], descriptors)
        answer = self._control.recv(64)
        if not answer:
            raise BrokenPipeError("the parent of the streams' processes has ended")
        return int(answer)

    def _launch(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                COMMAND,
                stdin=far.fileno(),
                stdout=subprocess.DEVNULL,
                env=os.environ | OWN_VARIABLES,
                cwd="/",
            )
        except OSError:
            near.close()
            raise
        finally:
            far.close()
        near.settimeout(ANSWERS_WITHIN)
        return near

    def close(self) -> None:
        """End it, and with it its processes."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


FORK_SERVER = ForkServer()
"""The service's only one."""
atexit.register(FORK_SERVER.close)


class ProcessEndedError(Exception):
    """The process has ended without a reason; the text says how."""


class StreamProcess:
    """One process, used by one thread at a time."""

    def __init__(self, request: Request) -> None:
        """Start it. Raises OSError, for example at a limit of processes, memory or descriptors."""
        self._connection, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._watched = select.poll()
        self._watched.register(self._connection.fileno(), select.POLLIN)
        self._memory = -1
        self._map: mmap.mmap | None = None
        self._ended: str | None = None
        self.server: socket.socket | None = None
        """The connection to the stream's server: the process reads it, this end only looks at its state."""
        self._id: int | None = None
        try:
            self._memory = os.memfd_create("pictures", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            fcntl.fcntl(self._memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # what is mapped here stays there
            self._id = FORK_SERVER.start(far, self._memory)
            self._connection.send(packed(request))
        except OSError:
            self.end()
            raise
        finally:
            far.close()

    def ask(self) -> None:
        """Ask for the next picture."""
        with suppress(OSError):  # one that has ended says so at the next `receive`
            self._connection.send(NEXT, socket.MSG_DONTWAIT)

    def receive(self, seconds: float) -> Message | None:
        """Wait for a message; None on timeout. Raises ProcessEndedError."""
        if not self._watched.poll(max(0.0, seconds) * 1000):
            return None
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._connection, LARGEST_MESSAGE, 1)
        except ConnectionResetError:  # it left a question unread; what it said before is still there
            packet, descriptors, _, _ = socket.recv_fds(self._connection, LARGEST_MESSAGE, 1)
        for descriptor in descriptors:
            self.server = socket.socket(fileno=descriptor)
        if not packet:
            raise ProcessEndedError(self._how_ended())
        return unpacked(packet)

    def pixels(self, picture: Picture) -> Pixels:
        """Return a copy of a picture, [H, W, 3], BGR. Raises ProcessEndedError if it cannot be one."""
        width, height, stride = picture.width, picture.height, picture.stride
        length = stride * height
        fits = 0 < 3 * width <= stride and height > 0 and width * height <= LARGEST_PIXELS
        is_mapped = self._map is not None and len(self._map) >= length
        if not fits or not (is_mapped or length <= os.fstat(self._memory).st_size):
            raise ProcessEndedError(f"gives a picture of {width}x{height} pixels that is none")
        if self._map is None or not is_mapped:
            self._map = mmap.mmap(self._memory, length, prot=mmap.PROT_READ)
        rows = np.frombuffer(self._map, np.uint8, length).reshape(height, stride)
        return np.array(rows[:, : 3 * width]).reshape(height, width, 3)

    def end(self) -> None:
        """End it, if it still runs, and release everything."""
        self._how_ended()
        self._release()

    def _how_ended(self) -> str:
        """End it once; return how it ended."""
        if self._ended is None:
            status = FORK_SERVER.end(self._id) if self._id is not None else None
            if status is None:
                self._ended = "lost its process with the parent of all streams' processes"
            else:
                name = signal.Signals(-status).name if status < 0 else f"status {status}"
                self._ended = f"ended its process unexpectedly ({name})"
        return self._ended

    def _release(self) -> None:
        self._connection.close()
        if self.server is not None:
            self.server.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1
