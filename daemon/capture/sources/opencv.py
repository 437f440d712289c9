"""OpenCV's VideoCapture with errors.

OpenCV and its FFmpeg write to standard error at every attempt; a camera that is offline for a night would fill the log.
Both are silenced here; the camera's status reports the error once.
"""

import os

import cv2
import numpy as np

from edgemeta.daemon.capture.source import Pixels, SourceError

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")


def open_capture(target: str, interface: int, properties: dict[int, int] | None = None) -> cv2.VideoCapture | None:
    """Open a file or device with one of OpenCV's interfaces; None if it cannot be opened."""
    flat = [number for pair in (properties or {}).items() for number in pair]
    capture = cv2.VideoCapture(target, interface, flat)
    return capture if capture.isOpened() else None


def read_capture(capture: cv2.VideoCapture) -> Pixels | None:
    """Return the next frame [H, W, 3], BGR; None at the end, or if OpenCV cannot decode it."""
    try:
        there, pixels = capture.read()
    except cv2.error:
        return None
    return np.asarray(pixels, np.uint8) if there else None


class OpenCvCapture:
    """An opened device. name: its name in errors."""

    def __init__(self, name: str, target: str, interface: int, properties: dict[int, int]) -> None:
        """Open; blocks until the device answers. Raises SourceError if it cannot be opened."""
        self._name = name
        capture = open_capture(target, interface, properties)
        if capture is None:
            raise SourceError(f"{name} cannot be opened")
        self._capture = capture

    def read(self) -> Pixels:
        """Return the next frame [H, W, 3], BGR. Raises SourceError at the end."""
        pixels = read_capture(self._capture)
        if pixels is None:
            raise SourceError(f"{self._name} gives no more frames")
        return pixels

    def release(self) -> None:
        """Close the device."""
        self._capture.release()
