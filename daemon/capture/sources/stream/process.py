"""The service's end of a stream's process: questions, answers, and pictures in shared memory."""

import fcntl
import mmap
import os
import select
import signal
import socket
from contextlib import suppress

import numpy as np

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.capture.sources.stream.forkserver import FORK_SERVER
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


class ProcessEndedError(Exception):
    """The process has ended without a reason; the text says how."""


class StreamProcess:
    """One process, used by one thread at a time."""

    def __init__(self, request: Request) -> None:
        """Start it. Raises OSError, for example at a limit of processes, memory or descriptors."""
        self._connection, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
        watched = select.poll()
        watched.register(self._connection.fileno(), select.POLLIN)
        if not watched.poll(max(0.0, seconds) * 1000):
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
        if not fits or length > os.fstat(self._memory).st_size:
            raise ProcessEndedError(f"gives a picture of {width}x{height} pixels that is none")
        if self._map is None or len(self._map) < length:
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
