"""Pictures as squares of one size, in exactly the pixels that the service gives to a network of that input."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.toolchain.errors import DataError

MIN_SIZE, MAX_SIZE = 1, 1024
"""Sides of the squares, pixels."""
_SHAPES = 64
"""Frame shapes whose preprocessors are kept."""

Square = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""From uint8 [H, W, 3] in B, G, R order to uint8 [size, size, 3] in R, G, B order, a new array."""


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


class _Pixels:
    """The input of a network that takes the pixels as they are."""

    def __init__(self, size: int) -> None:
        self.input = TensorType((size, size, 3), signed=False)
        self.preprocessing = Preprocessing("center", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis])
