"""The pixels of listed pictures: one full-size picture at a time, or all of them as small squares."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.plugins.pictures import read_checked_picture
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.toolchain.data.class_folders import ClassFolders
from edgemeta.toolchain.errors import DataError

MIN_SIZE, MAX_SIZE = 1, 1024
"""Sides of the squares, pixels."""
_SHAPES = 64
"""Frame shapes whose preprocessors are kept."""
Square = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""From uint8 [H, W, 3] in B, G, R order to uint8 [size, size, 3] in R, G, B order, a new array."""


class _Pixels:
    """The input of a network that takes the pixels as they are."""

    def __init__(self, size: int) -> None:
        self.input = TensorType((size, size, 3), signed=False)
        self.preprocessing = Preprocessing("center", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis])


def read_pictures(files: ClassFolders, report: Report) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield the number and the pixels, uint8 [H, W, 3] in B, G, R order, of each picture that can be decoded.

    A damaged picture, and what a decoder minds in another one, is reported with one sentence. The orientation that a
    camera has noted (EXIF) is applied.
    """
    for number in range(len(files)):
        path = files.file(number)
        try:
            pixels, remark = read_checked_picture(path)
        except FrameError as error:
            report(f"left out: {error}")
            continue
        if remark is not None:
            report(f"image {path}: {remark}")
        yield number, pixels


def read_squares(files: ClassFolders, size: int, report: Report) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """All pictures that can be decoded: x uint8 [N, size, size, 3] RGB (`make_square`), and their numbers [N].

    Memory holds x and one full-size picture. Raises DataError if all pictures of a class are damaged.
    """
    square = make_square(size)
    x = np.empty((len(files), size, size, 3), np.uint8)
    read: list[int] = []
    for number, pixels in read_pictures(files, report):
        x[len(read)] = square(pixels)
        read.append(number)
    numbers = np.array(read, np.intp)
    counts = np.bincount(files.y[numbers], minlength=len(files.labels))
    if (counts == 0).any():
        label = files.labels[int(counts.argmin())]
        raise DataError(f"{files.path / label}: no picture of this class can be decoded, expected at least one")
    return x[: len(read)], numbers


def make_square(size: int) -> Square:
    """What crops the greatest centred square and resizes it by area (`model.preprocess`, crop "center").

    Raises DataError for a size outside of MIN_SIZE .. MAX_SIZE.
    """
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise DataError(f"the size of pictures is {size}, expected {MIN_SIZE} .. {MAX_SIZE} pixels")
    wanted = _Pixels(size)

    @lru_cache(_SHAPES)
    def preprocessor(shape: tuple[int, ...]) -> Preprocessor:
        return make_preprocessor(wanted, shape)

    def square(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = preprocessor(frame.shape)(frame)[0].astype(np.uint8)
        return pixels

    return square
