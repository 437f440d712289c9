"""The contract between a camera thread and a source of frames.

A new kind of source is one file with a class that keeps this contract and one line in `registry.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import EdgemetaError

Pixels: TypeAlias = NDArray[np.uint8]
"""One picture [H, W, 3], BGR."""


class SourceError(EdgemetaError):
    """A source that cannot be opened or gives no frame, with the reason in one sentence; it is opened again later."""


class SourceEnded(Exception):  # noqa: N818 - the end of a clip is no error
    """A source that has given all the frames it has; it is not opened again."""


@dataclass(frozen=True)
class SourceSpec:
    """What the config says of a source.

    address: URL, path or device number as text, e.g. "rtsp://host/cam", "clip.avi", "0", "synthetic://?seed=1".
    fps: frames per second to keep; 0 is as fast as the reader takes frames, None leaves the source its own pace.
    loop: start over at the end of a clip or folder.
    timeout: seconds without a frame (or without an answer to `open`) after which the source counts as failed.
    """

    address: str
    fps: float | None = None
    loop: bool = False
    timeout: float = 5.0


@dataclass(frozen=True, eq=False)
class Frame:
    """One captured picture and the moment it came, in nanoseconds of `time.monotonic_ns()`.

    The pixels belong to the receiver: the source must not write into them again.
    """

    pixels: Pixels
    captured_ns: int


class Source(Protocol):
    """A source of frames, used by one thread at a time. The constructor checks the address and opens nothing.

    `live` says that pictures come from a camera, so that two equal ones are suspicious.

    `interval_ns` is the time the camera thread keeps from one `read` to the next, so that no source sleeps by itself; 0
    where the source sets the pace (a live camera) or wants none. It is looked at after `open`.
    """

    live: bool

    @property
    def interval_ns(self) -> int:
        """Nanoseconds between two frames that the reader keeps, or 0."""
        ...

    def open(self) -> None:
        """Make ready to read, within the spec's timeout. Raises SourceError. May be called again after `close`."""
        ...

    def read(self) -> Frame:
        """Give the next frame, within the spec's timeout. Raises SourceEnded at the end, SourceError at a fault."""
        ...

    def close(self) -> None:
        """Give everything back; never blocks, never raises; a second call does nothing."""
        ...


SourceFactory: TypeAlias = Callable[[SourceSpec], Source]
"""What a registry line names. Raises SourceError for an address it cannot understand."""
