"""One run of gst-launch-1.0: its pictures through a pipe, its words (size, faults) through another.

So a GStreamer pipeline, and with it a CSI camera, works with the OpenCV that pip installs, which has no GStreamer. The
process is read with a deadline and killed when it gives nothing: what hangs in a driver hangs outside of the service.
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
from edgemeta.daemon.config.source_address import without_password

PROGRAM = "gst-launch-1.0"
SINK = "edgemeta"
"""Name of the element that writes the pictures; its words are told apart by it."""

PIPE_BYTES = 1 << 20
"""Room asked of the kernel between the two; with its usual 64 KiB both would wake 14 times for a VGA picture."""

INTERRUPT_WITHIN = 0.3
KILL_WITHIN = 0.1
"""Seconds for the process to end when asked, and when killed."""

LAST_WORDS_WITHIN = 0.2
"""Seconds of silence after which a process that gives no more pictures is not expected to say why."""

LARGEST = 16_384
"""Greatest width and height, in pixels, that are believed."""

Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""


class GstLaunch:
    """A running pipeline. `name` is how errors call it; `pipeline` gives raw video at its end."""

    def __init__(self, name: str, pipeline: list[str]) -> None:
        """Start the process. Raises SourceError where GStreamer is not installed."""
        self._name = name
        program = shutil.which(PROGRAM)
        if program is None:
            raise SourceError(f"{name} needs {PROGRAM}, which is not installed (Debian package gstreamer1.0-tools)")
        try:
            self._start([program, "-v", *pipeline, "!", "videoconvert", "!", "video/x-raw,format=BGR", "!"])
        except OSError as error:
            raise SourceError(f"{name}: {PROGRAM} cannot be started: {error.strerror}") from error
        self._unfinished = b""
        self._fault = ""
        self._size: Size | None = None

    def _start(self, command: list[str]) -> None:
        self._pictures, writer = os.pipe()
        try:
            with suppress(OSError):  # beyond the user's limit: it works with less room, too
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._process = subprocess.Popen(
                [*command, "fdsink", f"name={SINK}", f"fd={writer}", "sync=false"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                start_new_session=True,  # Ctrl-C at a terminal is the service's, which then ends the process in order
            )
        except OSError:
            os.close(self._pictures)
            raise
        finally:
            os.close(writer)
        assert self._process.stdout is not None
        self._said = self._process.stdout
        self._words = self._said.fileno()

    def read(self, timeout: float) -> Pixels | None:
        """Give the next picture [H, W, 3], BGR; None where none came in time. Raises SourceError at the end."""
        deadline = time.monotonic() + timeout
        while self._size is None:
            if not self._wait_for(self._words, deadline):
                return None
            if not self._listen():
                raise self._ended()
        height, width = self._size
        stride = -(-3 * width // 4) * 4  # GStreamer pads the rows of BGR to multiples of 4 bytes
        rows = np.empty((height, stride), np.uint8)
        left = rows.data.cast("B")
        while left:
            if not self._wait_for(self._pictures, deadline):
                return None
            count = os.readv(self._pictures, [left])
            if count == 0:
                raise self._ended()
            left = left[count:]
        self._hear()  # of another size: the bytes would then be no picture
        return np.ascontiguousarray(rows[:, : 3 * width]).reshape(height, width, 3)

    def end(self) -> None:
        """Ask the process to end, as an Argus camera wants it, then kill it; returns within half a second."""
        for number, patience in ((signal.SIGINT, INTERRUPT_WITHIN), (signal.SIGKILL, KILL_WITHIN)):
            if self.runs:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
        os.close(self._pictures)
        self._said.close()

    @property
    def runs(self) -> bool:
        """Whether the process is still there: one that hangs in a driver cannot even be killed."""
        return self._process.poll() is None

    def _wait_for(self, descriptor: int, deadline: float) -> bool:
        """Wait until there is something to read or the end is reached, hearing every word meanwhile."""
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        if descriptor != self._words:
            watched.register(self._words, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(watched.poll(left * 1000))
            if descriptor in ready:
                return True
            if ready and not self._listen():
                watched.unregister(self._words)
        return False

    def _listen(self) -> bool:
        """Read words and note what matters; False at their end."""
        said = os.read(self._words, 65536)
        *lines, self._unfinished = (self._unfinished + said).split(b"\n")
        for line in lines:
            self._understand(line.decode(errors="replace"))
        return bool(said)

    def _understand(self, line: str) -> None:
        if f":{SINK}.GstPad:sink: caps = video/x-raw" in line:
            size = _number("height", line), _number("width", line)
            if self._size not in (None, size):
                raise SourceError(f"{self._name} changed its pictures from {_shown(self._size)} to {_shown(size)}")
            if not all(1 <= side <= LARGEST for side in size):
                raise SourceError(f"{self._name} gives pictures of {_shown(size)}, expected up to {LARGEST}x{LARGEST}")
            self._size = size
        elif not self._fault and line.startswith(("ERROR: ", "WARNING: erroneous pipeline: ")):
            said = re.sub(r"^(ERROR: from element /\S+: |ERROR: |WARNING: erroneous pipeline: )", "", line)
            self._fault = without_password(said)

    def _hear(self, patience: float = 0.0) -> None:
        """Listen to all that is said already, or within `patience` seconds."""
        watched = select.poll()
        watched.register(self._words, select.POLLIN)
        while watched.poll(patience * 1000) and self._listen():
            pass

    def _ended(self) -> SourceError:
        """Say why there are no more pictures, in GStreamer's own words where it gave any."""
        self._hear(LAST_WORDS_WITHIN)
        return SourceError(f"{self._name}: {self._fault}" if self._fault else f"{self._name} gives no more frames")


def _number(key: str, caps: str) -> int:
    found = re.search(rf"\b{key}=\(int\)(\d+)", caps)
    return int(found[1]) if found else 0


def _shown(size: Size | None) -> str:
    return f"{size[1]}x{size[0]}" if size else "none"
