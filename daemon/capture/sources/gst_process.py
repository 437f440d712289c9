"""The process of one GStreamer pipeline (gst_program.py): its frames come through a pipe, its error through another.

So a GStreamer pipeline, for example a CSI camera, works with the OpenCV that pip installs, which has no GStreamer. The
process is read with a deadline and killed if it delivers nothing: a driver that hangs does so outside of the service.
"""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np

from edgemeta.daemon.capture.source import Pixels, SourceError
from edgemeta.daemon.config.source_address import Target

PROGRAM = Path(__file__).with_name("gst_program.py")

PIPE_BYTES = 1 << 20
"""Requested pipe size; with the usual 64 KiB both sides would wake 14 times per VGA frame."""

INTERRUPT_WITHIN = 0.3
KILL_WITHIN = 0.1
"""Seconds to wait for the process after SIGINT, and after SIGKILL."""

ERROR_WITHIN = 0.2
"""Seconds to wait for an error message after a process has delivered its last frame."""

MOST_OF_ERROR = 4096
"""Bytes of an error message that are read."""

LARGEST = 16_384
"""Largest accepted width and height, in pixels."""

HEADER = struct.Struct("<II")
"""Before each frame: its width and height."""

Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""


class GstProcess:
    """A running pipeline. name: its name in errors. pipeline: its elements, the last one with raw video.

    target: what cleans its messages.
    """

    def __init__(self, name: str, pipeline: list[str], target: Target) -> None:
        """Start the process. Raises SourceError if that is impossible."""
        self._name, self._target = name, target
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C in a terminal is for the service, which then stops this process
            )
        except OSError as error:
            raise SourceError(f"{name}: its process cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._frames, self._errors = self._process.stdout.fileno(), self._process.stderr.fileno()
        with suppress(OSError):  # above the user's limit; a smaller pipe works, too
            fcntl.fcntl(self._frames, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        words = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in pipeline)
        with suppress(BrokenPipeError), self._process.stdin as program:
            program.write(b"%d\n%s" % (len(words), words))
        self._size: Size | None = None

    def read(self, timeout: float) -> Pixels | None:
        """Return the next frame [H, W, 3], BGR; None on timeout. Raises SourceError at the end."""
        deadline = time.monotonic() + timeout
        header = bytearray(HEADER.size)
        if not self._fill(memoryview(header), deadline):
            return None
        width, height = HEADER.unpack(header)
        self._check((height, width))
        stride = -(-3 * width // 4) * 4  # GStreamer pads the rows of BGR to multiples of 4 bytes
        rows = np.empty((height, stride), np.uint8)
        if not self._fill(rows.data.cast("B"), deadline):
            return None
        return np.ascontiguousarray(rows[:, : 3 * width]).reshape(height, width, 3)

    def _fill(self, left: memoryview, deadline: float) -> bool:
        """Read until a buffer is full; False on timeout, after which the process must be stopped."""
        watched = select.poll()
        watched.register(self._frames, select.POLLIN)
        while left:
            if not watched.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
            count = os.readv(self._frames, [left])
            if count == 0:
                raise self._ended()
            left = left[count:]
        return True

    def _check(self, size: Size) -> None:
        """Raise SourceError for another frame size than before, and for one that cannot be."""
        if self._size not in (None, size):
            raise SourceError(f"{self._name} changed its frame size from {_shown(self._size)} to {_shown(size)}")
        if not all(1 <= side <= LARGEST for side in size):
            raise SourceError(f"{self._name} gives frames of {_shown(size)}, expected at most {LARGEST}x{LARGEST}")
        self._size = size

    def stop(self) -> None:
        """Stop the process with SIGINT, as Argus cameras need it, then with SIGKILL; returns within half a second."""
        for number, seconds in ((signal.SIGINT, INTERRUPT_WITHIN), (signal.SIGKILL, KILL_WITHIN)):
            if self.running:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    @property
    def running(self) -> bool:
        """Whether the process exists: one that hangs in a driver cannot be killed."""
        return self._process.poll() is None

    def _ended(self) -> SourceError:
        """Return the reason for the end, with GStreamer's error message if it gave one."""
        watched = select.poll()
        watched.register(self._errors, select.POLLIN)
        said = os.read(self._errors, MOST_OF_ERROR) if watched.poll(ERROR_WITHIN * 1000) else b""
        if not said:
            return SourceError(f"{self._name} gives no more frames")
        reason = self._target.cleaned(" ".join(said.decode(errors="replace").split()))
        return SourceError(f"{self._name}: {reason}")


def _shown(size: Size | None) -> str:
    return f"{size[1]}x{size[0]}" if size else "none"
