"""Limits of a stream's process: it ends with its parent, before the service, and takes no more memory than its task."""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
FIRST_TO_END = "800"
"""Of 1000: where memory is short the kernel ends a stream's process before the service."""
NICE, BACKGROUND = 5, 10
"""Decoding leaves the processor to the service, which takes a picture of each camera in turn; but it never becomes what
background work is, whose niceness is 10 or more: beside that at the same niceness it would starve."""

SPARE_BYTES = 192 << 20
PIXEL_BYTES = 16
"""Memory for packets and parts, and per pixel of the stream: some decoded pictures that a codec keeps, 1.5 to 3 bytes
per pixel each, and two in BGR."""


def end_with_parent(parent: int) -> None:
    """End as soon as the parent process does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent process has ended")


def give_way() -> None:
    """Take the processor after the service, and be ended before it. A sandbox may forbid either."""
    with contextlib.suppress(OSError):
        os.nice(max(0, min(NICE, BACKGROUND - 1 - os.nice(0))))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_END)


class MemoryLimit:
    """The address space that this process may use beyond what it used at first."""

    def __init__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self._used = pages * resource.getpagesize()
        self.spare = 0
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.set_for(0)

    def set_for(self, pixels: int) -> None:
        """Limit the memory to what a stream with pictures of that many pixels needs."""
        self.spare = SPARE_BYTES + PIXEL_BYTES * pixels
        resource.setrlimit(resource.RLIMIT_AS, (self._used + self.spare, resource.RLIM_INFINITY))

    def lift(self) -> None:
        """Limit it no more: a device's driver reserves as much as it likes."""
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
