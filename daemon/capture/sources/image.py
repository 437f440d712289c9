"""Images as a camera: one image file, or a folder of them in the order of their names."""

import time
from pathlib import Path

from edgemeta.daemon.capture.source import Frame, Pixels, SourceEnded, SourceError, SourceSpec
from edgemeta.daemon.runtime.clock import NS
from edgemeta.model.errors import FrameError
from edgemeta.model.small_file import exists, is_folder
from edgemeta.plugins.pictures import PICTURE_SUFFIXES, read_picture

FRAMES_PER_SECOND = 1.0


class ImageSource:
    """Each image once, or repeatedly with `loop`, at the spec's rate or one per second.

    An invalid image in a folder is one SourceError; after reopening the source continues with the next image.
    """

    live = False

    def __init__(self, spec: SourceSpec) -> None:
        rate = FRAMES_PER_SECOND if spec.fps is None else spec.fps
        self._interval_ns = round(NS / rate) if rate else 0
        self._path = spec.address.path
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
        if not exists(self._path):
            raise SourceError(f"{self._path} does not exist, expected an image or a folder of images")
        if not is_folder(self._path):
            return [self._path]
        images = sorted(path for path in self._path.iterdir() if path.suffix.lower() in PICTURE_SUFFIXES)
        if not images:
            raise SourceError(f"folder {self._path} has no images ({', '.join(sorted(PICTURE_SUFFIXES))})")
        return images


def read_image(path: Path) -> Pixels:
    """Decode an image file to [H, W, 3] BGR, as `read_picture`. Raises SourceError."""
    try:
        return read_picture(path)
    except FrameError as error:
        raise SourceError(str(error)) from error
