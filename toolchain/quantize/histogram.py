"""Histogram of a tensor's values, filled image by image: its memory does not grow with the number of values."""

import math

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.float_model.graph import Float32

BINS = 2048
_NARROWEST = 2.0**-60


class Histogram:
    """Counts of values in 2,048 bins of one width, a power of two that doubles as soon as values lie outside.

    Bin i holds values from (first + i) * width on; zero is a border of two bins. About a thousand bins or more lie
    between the least and the greatest value. counts: int64 [BINS], without the values that are exactly 0, which every
    quantization represents exactly; zeros: their number. least, greatest: of all values, at most and at least 0.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.zeros = 0
        self.least = self.greatest = 0.0
        self.width = _NARROWEST
        self._first = -BINS // 2

    @property
    def centres(self) -> NDArray[np.float64]:
        """The value in the middle of every bin [BINS]."""
        middle: NDArray[np.float64] = (self._first + np.arange(BINS, dtype=np.float64) + 0.5) * self.width
        return middle

    @property
    def total(self) -> int:
        """Number of values, zeros included."""
        return int(self.counts.sum()) + self.zeros

    def add(self, values: Float32, least: float, greatest: float) -> None:
        """Count values [any shape], of a tensor whose values lie in least .. greatest."""
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        self._cover()
        flat = values.reshape(-1)
        present = flat[flat != 0]
        self.zeros += len(flat) - len(present)
        bins = np.floor(present * np.float32(1 / self.width)).astype(np.int64) - self._first
        self.counts += np.bincount(np.clip(bins, 0, BINS - 1), minlength=BINS)

    def merge(self, other: "Histogram") -> None:
        """Count the values of another histogram as well."""
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self._cover(other.width)
        bins = np.floor(other.centres / self.width).astype(np.int64) - self._first
        self.counts += np.bincount(np.clip(bins, 0, BINS - 1), other.counts, BINS).astype(np.int64)
        self.zeros += other.zeros

    def _cover(self, least_width: float = 0.0) -> None:
        """Double the width, to `least_width` at least, and move the first bin until least .. greatest lies inside."""
        width = max(self.width, least_width)
        while math.floor(self.greatest / width) - math.floor(self.least / width) >= BINS - 1:
            width *= 2
        first = math.floor(self.least / width)
        is_inside = self._first <= first and math.floor(self.greatest / width) < self._first + BINS
        if width == self.width and is_inside:
            return
        filled = np.flatnonzero(self.counts)
        moved = np.floor(self.centres[filled] / width).astype(np.int64) - first
        self.counts = np.bincount(moved, self.counts[filled], BINS).astype(np.int64)
        self.width, self._first = width, first
