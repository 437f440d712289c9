"""Images as a camera: one image file, or a folder of them in the order of their names."""

import time
from pathlib import Path

import cv2
import numpy as np

from edgemeta.daemon.capture.source import Frame, Pixels, SourceEnded, SourceError, SourceSpec
from edgemeta.daemon.config.source_address import IMAGE_SUFFIXES, path_of
from edgemeta.daemon.runtime.clock import NS

FRAMES_PER_SECOND = 1.0


class ImageSource:
    """Each image once, or repeatedly with `loop`, at the spec's rate or one per second.

    An invalid image in a folder is one SourceError; after reopening the source continues with the next image.
    """

    live = False

    def __init__(self, spec: SourceSpec) -> None:
        rate = FRAMES_PER_SECOND if spec.fps is None else spec.fps
        self._interval_ns = round(NS / rate) if rate else 0
        self._path = path_of(spec.address)
        self._loop = spec.loop
        self._pending: list[Path] = []

    @property
    def interval_ns(self) -> int:
        """Nanoseconds between two images."""
        return self._interval_ns

    def open(self) -> None:
        """List the images, unless some of the last list are still to come. Raises SourceError if there are none."""
        self._pending = self._pending or self._listed()

    def read(self) -> Frame:
        """Decode the next image."""
        if not self._pending:
            if not self._loop:
                raise SourceEnded
            self._pending = self._listed()
        captured_ns = time.monotonic_ns()
        return Frame(read_image(self._pending.pop(0)), captured_ns)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _listed(self) -> list[Path]:
        if not self._path.exists():
            raise SourceError(f"{self._path} does not exist, expected an image or a folder of images")
        if not self._path.is_dir():
            return [self._path]
        images = sorted(path for path in self._path.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
        if not images:
            raise SourceError(f"folder {self._path} has no images ({', '.join(sorted(IMAGE_SUFFIXES))})")
        return images


def read_image(path: Path) -> Pixels:
    """Decode an image file of any depth, gray, palette or colour, to [H, W, 3] BGR. Raises SourceError.

    A JPEG without its end marker is refused: decoders fill the missing part with gray without an error.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SourceError(f"image {path} cannot be read: {error.strerror}") from error
    if content[:2] == b"\xff\xd8" and b"\xff\xd9" not in content[2:]:
        raise SourceError(f"image {path} is a JPEG truncated after {len(content)} bytes")
    if not content:
        raise SourceError(f"image {path} is empty")
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # for example more pixels than OpenCV takes
        pixels = None
    if pixels is None:
        raise SourceError(f"image {path} cannot be decoded, expected JPEG, PNG or the like")
    return np.asarray(pixels, np.uint8)
