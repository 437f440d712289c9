"""OpenCV's VideoCapture as a capture that says what is wrong.

OpenCV and its FFmpeg write to standard error at every try; a camera that is away for a night would fill the log. Both
are silenced here, and a camera's status says once what is wrong.
"""

import os

import cv2
import numpy as np

from edgemeta.daemon.capture.source import Pixels, SourceError

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

# FFmpeg looks at a stream for up to 5 s before it gives the first frame, and what came meanwhile is then old. Half a
# second (in microseconds) is enough to find codec and size. Options named here replace OpenCV's own, such as TCP.
os.environ.setdefault("OPENCV_FFMPEG_CAPTURE_OPTIONS", "rtsp_transport;tcp|analyzeduration;500000")


def open_capture(target: str, interface: int, properties: dict[int, int] | None = None) -> cv2.VideoCapture | None:
    """Open a file, device or address with one of OpenCV's interfaces; None where it cannot be opened."""
    flat = [number for pair in (properties or {}).items() for number in pair]
    capture = cv2.VideoCapture(target, interface, flat)
    return capture if capture.isOpened() else None


def read_capture(capture: cv2.VideoCapture) -> Pixels | None:
    """Give the next picture [H, W, 3], BGR; None at the end, or where OpenCV cannot decode it."""
    try:
        there, pixels = capture.read()
    except cv2.error:
        return None
    return np.asarray(pixels, np.uint8) if there else None


class OpenCvCapture:
    """An opened device or stream. `name` is how errors call it."""

    def __init__(self, name: str, target: str, interface: int, properties: dict[int, int]) -> None:
        """Open; blocks until the device or server answers. Raises SourceError where it cannot be opened."""
        self._name = name
        capture = open_capture(target, interface, properties)
        if capture is None:
            raise SourceError(f"{name} cannot be opened")
        self._capture = capture

    def read(self) -> Pixels:
        """Give the next picture [H, W, 3], BGR. Raises SourceError at the stream's end."""
        pixels = read_capture(self._capture)
        if pixels is None:
            raise SourceError(f"{self._name} gives no more frames")
        return pixels

    def release(self) -> None:
        """Close the device or connection."""
        self._capture.release()
