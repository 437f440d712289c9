"""Pictures without labels, for calibration: folders of picture files, video clips and arrays, one picture at a time."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import PICTURE_SUFFIXES, read_checked_picture
from edgemeta.toolchain.errors import DataError

Frame = NDArray[np.uint8]
"""uint8 [H, W, 3] in B, G, R order."""


class Frames(Protocol):
    """Pictures to iterate over.

    `len` is their number, of which some may turn out to be unusable. source: what error messages call them.
    """

    source: str

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Frame]: ...


class ArrayFrames:
    """Pictures of one size in memory: uint8 [N, H, W, 3] in R, G, B order, as data sets have them."""

    def __init__(self, pixels: NDArray[np.uint8], source: str = "the images") -> None:
        self.source = source
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def __iter__(self) -> Iterator[Frame]:
        for image in self._pixels:
            yield np.ascontiguousarray(image[..., ::-1])


class FolderFrames:
    """The pictures in a folder and its sub-folders (or one picture file): at most `most`, evenly chosen by name.

    A picture that cannot be decoded is reported with one sentence and left out. Raises DataError if there are none.
    """

    def __init__(self, path: Path, most: int, report: Report) -> None:
        self.source = str(path)
        self._report = report
        found = pictures_in(path)
        if not found:
            raise DataError(f"{path}: has no pictures, expected some of {', '.join(sorted(PICTURE_SUFFIXES))}")
        self._paths = [found[i * len(found) // most] for i in range(most)] if most < len(found) else found

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[Frame]:
        for path in self._paths:
            try:
                pixels, remark = read_checked_picture(path)
            except FrameError as error:
                self._report(f"left out: {error}")
                continue
            if remark is not None:
                self._report(f"image {path}: {remark}")
            yield pixels


def pictures_in(path: Path) -> list[Path]:
    """The picture files in a folder and its sub-folders by name, or the file itself."""
    if path.is_file():
        return [path]
    names = [Path(folder) / name for folder, _, files in os.walk(path) for name in files]
    return sorted(name for name in names if name.suffix.lower() in PICTURE_SUFFIXES)


class ClipFrames:
    """Frames of a video clip: at most `most`, evenly chosen from those numbered first .. last - 1, from 0.

    Raises DataError if it is no video or has no frame in this range.
    """

    def __init__(self, path: Path, most: int, first: int = 0, last: int | None = None) -> None:
        self.source = str(path)
        self._path = path
        length = self._count(last)
        if length <= first:
            raise DataError(f"{path}: has {length} frames, expected some from number {first} on")
        available = length - first
        count = min(most, available)
        self._numbers = [first + i * available // count for i in range(count)]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Frame]:
        capture = self._opened()
        try:
            wanted = iter(self._numbers)
            number = next(wanted)
            for at in range(self._numbers[-1] + 1):
                if not capture.grab():
                    return
                if at == number:
                    decoded, frame = capture.retrieve()
                    if decoded:
                        yield np.asarray(frame, np.uint8)
                    number = next(wanted, -1)
        finally:
            capture.release()

    def _opened(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG)
        if not capture.isOpened():
            raise DataError(f"{self._path}: cannot be decoded, expected a data set, a picture, a folder or a video")
        return capture

    def _count(self, last: int | None) -> int:
        """Number of frames up to `last`, by decoding: headers are often wrong."""
        capture = self._opened()
        try:
            count = 0
            while (last is None or count < last) and capture.grab():
                count += 1
            return count
        finally:
            capture.release()
