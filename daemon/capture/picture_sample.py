"""A coarse sample of a picture: enough to see over time whether it lives, cheap at any size."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.source import Pixels

COLUMNS, ROWS = 32, 18
"""Blocks of a picture, each of which counts with its mean; a smaller picture has fewer."""

READ_PER_SIDE = 8
"""At least so many pixels of a block's side are read, at equal distances, where it has so many."""

POINTS_PER_SIDE = 2
"""So many pixels of a block's side are kept by themselves, too: means hide noise."""


@dataclass(frozen=True, eq=False)
class PictureSample:
    """Luma of a picture. blocks: means, float32 [rows, columns]. points: single pixels of each row, uint8 [rows, n]."""

    blocks: NDArray[np.float32]
    points: NDArray[np.uint8]


def sample_of(pixels: Pixels) -> PictureSample:
    """Sample a picture [H, W, 3], BGR, not empty. Samples of pictures of one size have one shape."""
    height, width = pixels.shape[:2]
    step = max(1, min(height // (ROWS * READ_PER_SIDE), width // (COLUMNS * READ_PER_SIDE)))
    luma = cv2.cvtColor(np.ascontiguousarray(pixels[step // 2 :: step, step // 2 :: step]), cv2.COLOR_BGR2GRAY)
    rows, columns = min(ROWS, luma.shape[0]), min(COLUMNS, luma.shape[1])
    blocks = cv2.resize(luma.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    parts = zip((rows, columns), luma.shape, strict=True)
    chosen = np.ix_(*(_middles(POINTS_PER_SIDE * number, size) for number, size in parts))
    return PictureSample(np.asarray(blocks, np.float32), np.asarray(luma[chosen], np.uint8).reshape(rows, -1))


def _middles(parts: int, length: int) -> NDArray[np.intp]:
    """Return the indices of the middles of so many equal parts of a length."""
    return ((2 * np.arange(parts) + 1) * length // (2 * parts)).astype(np.intp)
