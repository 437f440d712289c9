"""One process of gst-launch-1.0: its frames come through a pipe, its log (frame size, errors) through another.

So a GStreamer pipeline, for example a CSI camera, works with the OpenCV that pip installs, which has no GStreamer. The
process is read with a deadline and killed if it delivers nothing: a driver that hangs does so outside of the service.
"""

import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import TypeAlias

import numpy as np

from edgemeta.daemon.capture.source import Pixels, SourceError
from edgemeta.daemon.config.source_address import Target

PROGRAM = "gst-launch-1.0"
SINK = "edgemeta"
"""Name of the element that writes the frames; it identifies the element's log lines."""

PIPE_BYTES = 1 << 20
"""Requested pipe size; with the usual 64 KiB both sides would wake 14 times per VGA frame."""

INTERRUPT_WITHIN = 0.3
KILL_WITHIN = 0.1
"""Seconds to wait for the process after SIGINT, and after SIGKILL."""

ERROR_WITHIN = 0.2
"""Seconds to wait for an error message after a process has delivered its last frame."""

LARGEST = 16_384
"""Largest accepted width and height, in pixels."""

Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""


class GstLaunch:
    """A running pipeline. name: its name in errors. pipeline: its elements, the last one with raw video.

    target: what cleans its messages.
    """

    def __init__(self, name: str, pipeline: list[str], target: Target) -> None:
        """Start the process. Raises SourceError where GStreamer is not installed."""
        self._name, self._target = name, target
        program = shutil.which(PROGRAM)
        if program is None:
            raise SourceError(f"{name} needs {PROGRAM}, which is not installed (Debian package gstreamer1.0-tools)")
        try:
            self._start([program, "-v", *pipeline, "!", "videoconvert", "!", "video/x-raw,format=BGR", "!"])
        except OSError as error:
            raise SourceError(f"{name}: {PROGRAM} cannot be started: {error.strerror}") from error
        self._unfinished = b""
        self._error = ""
        self._size: Size | None = None

    def _start(self, command: list[str]) -> None:
        self._frames, writer = os.pipe()
        try:
            with suppress(OSError):  # above the user's limit; a smaller pipe works, too
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._process = subprocess.Popen(
                [*command, "fdsink", f"name={SINK}", f"fd={writer}", "sync=false"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                start_new_session=True,  # Ctrl-C in a terminal is for the service, which then stops this process
            )
        except OSError:
            os.close(self._frames)
            raise
        finally:
            os.close(writer)
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._log = self._output.fileno()

    def read(self, timeout: float) -> Pixels | None:
        """Return the next frame [H, W, 3], BGR; None on timeout. Raises SourceError at the end."""
        deadline = time.monotonic() + timeout
        while self._size is None:
            if not self._wait_for(self._log, deadline):
                return None
            if not self._read_log():
                raise self._ended()
        height, width = self._size
        stride = -(-3 * width // 4) * 4  # GStreamer pads the rows of BGR to multiples of 4 bytes
        rows = np.empty((height, stride), np.uint8)
        left = rows.data.cast("B")
        while left:
            if not self._wait_for(self._frames, deadline):
                return None
            count = os.readv(self._frames, [left])
            if count == 0:
                raise self._ended()
            left = left[count:]
        self._read_pending_log()  # a new frame size would make the bytes meaningless
        return np.ascontiguousarray(rows[:, : 3 * width]).reshape(height, width, 3)

    def stop(self) -> None:
        """Stop the process with SIGINT, as Argus cameras need it, then with SIGKILL; returns within half a second."""
        for number, seconds in ((signal.SIGINT, INTERRUPT_WITHIN), (signal.SIGKILL, KILL_WITHIN)):
            if self.running:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
        os.close(self._frames)
        self._output.close()

    @property
    def running(self) -> bool:
        """Whether the process exists: one that hangs in a driver cannot be killed."""
        return self._process.poll() is None

    def _wait_for(self, descriptor: int, deadline: float) -> bool:
        """Wait until a pipe can be read or has ended; log lines that come meanwhile are parsed."""
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        if descriptor != self._log:
            watched.register(self._log, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(watched.poll(left * 1000))
            if descriptor in ready:
                return True
            if ready and not self._read_log():
                watched.unregister(self._log)
        return False

    def _read_log(self) -> bool:
        """Read and parse log lines; False at their end."""
        content = os.read(self._log, 65536)
        *lines, self._unfinished = (self._unfinished + content).split(b"\n")
        for line in lines:
            self._parse(line.decode(errors="replace"))
        return bool(content)

    def _parse(self, line: str) -> None:
        if f":{SINK}.GstPad:sink: caps = video/x-raw" in line:
            size = _number("height", line), _number("width", line)
            if self._size not in (None, size):
                raise SourceError(f"{self._name} changed its frame size from {_shown(self._size)} to {_shown(size)}")
            if not all(1 <= side <= LARGEST for side in size):
                raise SourceError(f"{self._name} gives frames of {_shown(size)}, expected at most {LARGEST}x{LARGEST}")
            self._size = size
        elif not self._error and line.startswith(("ERROR: ", "WARNING: erroneous pipeline: ")):
            content = re.sub(r"^(ERROR: from element /\S+: |ERROR: |WARNING: erroneous pipeline: )", "", line)
            self._error = self._target.cleaned(content)

    def _read_pending_log(self, seconds: float = 0.0) -> None:
        """Parse all log lines that are there already, or come within `seconds`."""
        watched = select.poll()
        watched.register(self._log, select.POLLIN)
        while watched.poll(seconds * 1000) and self._read_log():
            pass

    def _ended(self) -> SourceError:
        """Return the reason for the end, with GStreamer's error message if it gave one."""
        self._read_pending_log(ERROR_WITHIN)
        return SourceError(f"{self._name}: {self._error}" if self._error else f"{self._name} gives no more frames")


def _number(key: str, caps: str) -> int:
    found = re.search(rf"\b{key}=\(int\)(\d+)", caps)
    return int(found[1]) if found else 0


def _shown(size: Size | None) -> str:
    return f"{size[1]}x{size[0]}" if size else "none"
