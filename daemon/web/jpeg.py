"""JPEG pictures of the newest frames: made only when asked for, and not more often than a rate allows."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.web.recent_frames import RecentFrames, ShownFrame

LONGEST_SIDE = 960
"""Pixels; larger frames are made smaller."""

QUALITY = 80


@dataclass(frozen=True, eq=False)
class _Made:
    sight: ShownFrame
    at: float
    jpeg: bytes


class JpegEncoder:
    """Pictures for all viewers.

    Each camera has its share of the rate; in between, the picture made last is given again.

    `rate` is pictures per second, all cameras together. One thread at a time may ask.
    """

    def __init__(self, seen: RecentFrames, rate: int, now: Callable[[], float] = time.monotonic) -> None:
        self._seen = seen
        self._lasts = max(1, len(seen.cameras)) / rate
        self._now = now
        self._made: dict[str, _Made] = {}

    @property
    def cameras(self) -> list[str]:
        """The cameras that there may be pictures of."""
        return self._seen.cameras

    def jpeg(self, camera: str) -> bytes | None:
        """Return a camera's newest picture, or the one before it; None where there is none, or none is shown."""
        sight, made = self._seen.newest(camera), self._made.get(camera)
        if sight is None or sight.pixels is None:
            return None
        now = self._now()
        if made is None or (made.sight is not sight and now - made.at >= self._lasts):
            made = self._made[camera] = _Made(sight, now, encode(sight.pixels))
        return made.jpeg


def encode(pixels: Pixels) -> bytes:
    """Return a picture [H, W, 3], BGR, as JPEG, no side of it longer than LONGEST_SIDE."""
    height, width = pixels.shape[:2]
    scale = LONGEST_SIDE / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    done, jpeg = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    assert done, "a picture of uint8 can be encoded"
    return jpeg.tobytes()
