"""The contract between a camera thread and a source of frames.

A new kind of source is one file in `sources/` with a class that implements it, and one line in its `registry.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.reduction import WHOLE, Reduction, reduction_of
from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.config.camera import CameraConfig, CameraTlsConfig, Decode, Transport
from edgemeta.daemon.config.secrets import SecretError
from edgemeta.daemon.config.source_address import SourceAddress, Target
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.preprocess import ImageInput

Pixels: TypeAlias = NDArray[np.uint8]
"""One frame [H, W, 3], BGR."""


class SourceError(EdgemetaError):
    """A source that cannot be opened or delivers no frame, with the reason in one sentence; it is reopened later."""

    def __init__(self, reason: str, retry: Retry = Retry.SOON, changed: Callable[[], bool] | None = None) -> None:
        """Note when to retry. changed: whether what was refused, such as a password, is another by now."""
        super().__init__(reason)
        self.retry = retry
        self.changed = changed


class SourceSilentError(SourceError):
    """A source that gave no frame in time. It stays open and may be read again: perhaps the service itself was late."""


class SourceWaiting(Exception):  # noqa: N818 - nothing is wrong
    """A source that works, but has no frame yet; the text says for what it waits. `read` may be called again."""


class SourceEnded(Exception):  # noqa: N818 - the end of a clip is not an error
    """A source that has delivered all its frames; it is not reopened."""


@dataclass(frozen=True)
class SourceSpec:
    """The keys of the config about a source.

    address: URL, path or device number, e.g. "rtsp://host/cam", "clip.avi", "0", "synthetic://?seed=1".
    fps: frames per second to read; 0 is as fast as the reader takes frames, None keeps the source's own rate.
    loop: restart at the end of a clip or folder.
    timeout: seconds without a frame (or without an answer to `open`) after which the source counts as failed.
    tls: how the certificate of a network camera is checked. transport: of the frames of `rtsp://`. decode: what decodes
    a network stream. on_demand: whether that decodes only what is asked for. reduction: how small its pictures become.
    """

    address: SourceAddress
    fps: float | None = None
    loop: bool = False
    timeout: float = 5.0
    tls: CameraTlsConfig = field(default_factory=CameraTlsConfig)
    transport: Transport = "tcp"
    decode: Decode = "software"
    on_demand: bool = False
    reduction: Reduction = WHOLE

    @classmethod
    def of(cls, camera: CameraConfig, model: ImageInput | None = None) -> "SourceSpec":
        """Return the keys of a camera that are about its source. model: what sees its pictures."""
        times, stream = (camera.fps, camera.loop, camera.frame_timeout), (camera.transport or "tcp", camera.decode)
        return cls(camera.address, *times, camera.tls, *stream, reduction=reduction_of(camera, model))

    @classmethod
    def of_pictures(cls, camera: CameraConfig) -> "SourceSpec | None":
        """Return what gives the pictures to publish, where that is another stream than the classified one."""
        if camera.snapshot_source is None:
            return None
        address = camera.snapshot_source.with_login(camera, camera.show_path)
        transport = camera.transport or "tcp"
        return cls(address, None, False, camera.frame_timeout, camera.tls, transport, camera.decode, on_demand=True)

    def target(self) -> Target:
        """Return what is opened, with the login as it is now. Raises SourceError."""
        try:
            return self.address.target()
        except SecretError as error:
            raise SourceError(str(error)) from error


class Frame(NamedTuple):
    """One captured frame and its time, in nanoseconds of `time.monotonic_ns()`.

    The pixels belong to the receiver: the source must not write into them again.

    stream_ns: the frame's presentation time in the stream's own clock, in ns, which starts anywhere at each opening;
    None where the source has none.
    damaged: errors of the decoder and incomplete frames since the source was opened, in total.
    skipped: frames that a live source decoded while nobody took one, since the source was opened, in total.
    link_busy: whether the link to the camera never pauses, so that frames without `stream_ns` come late by an unknown
    time.
    delay_ns: how long after its capture it arrived. A source gives 0 and the time of arrival as that of capture; the
    camera's thread corrects both.
    decoder: what has decoded it, of a network stream: `software` or the name of a device.
    """

    pixels: Pixels
    captured_ns: int
    stream_ns: int | None = None
    damaged: int = 0
    skipped: int = 0
    link_busy: bool = False
    delay_ns: int = 0
    decoder: str | None = None


class Source(Protocol):
    """A source of frames, used by one thread at a time. The constructor checks the address and opens nothing.

    `live`: whether frames come from a camera, so that identical ones mean a problem.

    `interval_ns` is the time that the camera thread keeps from one `read` to the next, so no source sleeps itself; 0
    if the source sets the rate (a live camera) or has none. It is read after `open`.
    """

    live: bool

    @property
    def interval_ns(self) -> int:
        """Nanoseconds between two frames that the reader keeps, or 0."""
        ...

    def open(self) -> None:
        """Prepare to read, within the spec's timeout. Raises SourceError. May be called again after `close`."""
        ...

    def read(self) -> Frame:
        """Return the next frame, within the spec's timeout. Raises SourceEnded, SourceError or SourceWaiting.

        After the timeout alone it raises SourceSilentError, after which it may be called again.
        """
        ...

    def close(self) -> None:
        """Release everything; never blocks, never raises; a second call does nothing."""
        ...


class OnDemandSource(Source, Protocol):
    """A source that decodes a frame where `read` asks for one, the newest; between those it is looked at."""

    def open_stream(self) -> None:
        """Wait until frames could be read. Raises SourceError."""
        ...

    def look(self, seconds: float = 0.0) -> None:
        """See for some seconds whether the source has ended. Raises SourceError, SourceWaiting."""
        ...


SourceFactory: TypeAlias = Callable[[SourceSpec], Source]
"""What a registry line names. Raises SourceError for an invalid address."""
