"""A video file as a camera: at the clip's rate, at another, or as fast as it decodes; once or repeatedly."""

import time
from pathlib import Path

import cv2

from edgemeta.daemon.capture.source import Frame, SourceEnded, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.opencv import open_capture, read_capture
from edgemeta.daemon.runtime.clock import NS
from edgemeta.model.small_file import exists, is_file

SLOWEST = 0.001
"""Least accepted frame rate of a clip's header, in frames per second."""


class VideoSource:
    """The frames of a clip through OpenCV's FFmpeg. Raises SourceEnded after the last, unless `loop`."""

    live = False

    def __init__(self, spec: SourceSpec) -> None:
        self._path: Path = spec.address.path
        self._rate = spec.fps
        self._loop = spec.loop
        self._capture: cv2.VideoCapture | None = None
        self._interval_ns = 0
        self._frames_read = 0

    @property
    def interval_ns(self) -> int:
        """Nanoseconds between two frames, of the clip or of the spec."""
        return self._interval_ns

    def open(self) -> None:
        """Open the clip at its first frame. Raises SourceError if it does not exist or is not a video."""
        if not is_file(self._path):
            found = "is not a regular file" if exists(self._path) else "does not exist"
            raise SourceError(f"{self._path} {found}, expected a video file")
        self._capture = open_capture(str(self._path), cv2.CAP_FFMPEG)
        if self._capture is None:
            raise SourceError(f"{self._path} cannot be decoded, expected a video file")
        rate = self._capture.get(cv2.CAP_PROP_FPS) if self._rate is None else self._rate
        self._interval_ns = round(NS / max(rate, SLOWEST)) if rate > 0 else 0
        self._frames_read = 0

    def read(self) -> Frame:
        """Decode the next frame."""
        if self._capture is None:
            raise SourceError(f"{self._path} is not open")
        pixels = read_capture(self._capture)
        if pixels is not None:
            self._frames_read += 1
            return Frame(pixels, time.monotonic_ns())
        if self._frames_read == 0:
            raise SourceError(f"{self._path} has no frame that can be decoded, expected a video file")
        if not self._loop:
            raise SourceEnded
        self.close()
        self.open()
        return self.read()

    def close(self) -> None:
        """Close the file."""
        if self._capture is not None:
            self._capture.release()
            self._capture = None
