"""The newest frames as JPEG: encoded only on request, and at a limited rate."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.messages.page import FramePicture
from edgemeta.daemon.pictures.jpeg import encode as encode_scaled
from edgemeta.daemon.pictures.jpeg import scaled
from edgemeta.daemon.web.recent_frames import RecentFrames, ShownFrame

LONGEST_SIDE = 960
"""Pixels; larger frames are scaled down."""

QUALITY = 80


@dataclass(frozen=True, eq=False)
class EncodedFrame:
    """A classified frame and its JPEG. encoded_at: seconds by the encoder's clock."""

    shown: ShownFrame
    encoded_at: float
    jpeg: bytes

    @property
    def record(self) -> FramePicture:
        """The frame as JSON, with the objects that were found in this very frame."""
        message = self.shown.message
        jpeg = base64.b64encode(self.jpeg).decode("ascii")
        return FramePicture(
            sequence=message.sequence,
            objects=message.objects or [],
            keypoints=message.keypoints or [],
            segments=message.segments,
            jpeg=jpeg,
        )


class JpegEncoder:
    """JPEG frames for all viewers.

    Each camera has an equal share of the rate; until its next turn, its last JPEG is returned again.

    rate: frames encoded per second, for all cameras together. Not thread-safe.
    """

    def __init__(self, recent: RecentFrames, rate: int, now: Callable[[], float] = time.monotonic) -> None:
        self._recent = recent
        self._interval = max(1, len(recent.cameras)) / rate
        self._now = now
        self._encoded: dict[str, EncodedFrame] = {}

    @property
    def cameras(self) -> list[str]:
        """The cameras, in the config's order."""
        return self._recent.cameras

    def picture(self, camera: str) -> EncodedFrame | None:
        """Return a recent frame of a camera; None before the first, or if frames are not shown."""
        shown, last = self._recent.newest(camera), self._encoded.get(camera)
        if shown is None or shown.pixels is None:
            return None
        now = self._now()
        if last is None or (last.shown is not shown and now - last.encoded_at >= self._interval):
            last = self._encoded[camera] = EncodedFrame(shown, now, encode(shown.pixels))
        return last


def encode(pixels: Pixels) -> bytes:
    """Return a frame [H, W, 3], BGR, as JPEG, scaled to at most LONGEST_SIDE."""
    return encode_scaled(scaled(pixels, LONGEST_SIDE), QUALITY)
