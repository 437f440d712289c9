"""OpenCV's VideoCapture as a capture that says what is wrong."""

import cv2
import numpy as np

from edgemeta.daemon.sources.api import Pixels, SourceError


class OpenCvCapture:
    """An opened VideoCapture. `name` is how errors call the source."""

    def __init__(self, name: str, target: str | int, interface: int, properties: dict[int, int]) -> None:
        """Open; blocks until the device or server answers. Raises SourceError where it cannot be opened."""
        self._name = name
        flat = [number for pair in properties.items() for number in pair]
        try:
            self._capture = cv2.VideoCapture(target, interface, flat)
        except cv2.error as error:
            raise SourceError(f"{name} cannot be opened: {error.err}") from error
        if not self._capture.isOpened():
            raise SourceError(f"{name} cannot be opened")

    def read(self) -> Pixels:
        """Give the next picture [H, W, 3], BGR. Raises SourceError at the stream's end."""
        try:
            there, pixels = self._capture.read()
        except cv2.error as error:
            raise SourceError(f"{self._name} cannot be decoded: {error.err}") from error
        if not there:
            raise SourceError(f"{self._name} gives no more frames")
        return np.asarray(pixels, np.uint8)

    def release(self) -> None:
        """Close the device or connection."""
        self._capture.release()
