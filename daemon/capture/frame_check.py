"""Whether a live camera's pictures can be believed: not empty, not of another size, not frozen, not black.

A sensor has noise, so two equal pictures are rare, and equal ones for half a minute mean that camera, driver or decoder
hang and repeat themselves. That, and a size that changes or is nothing, is cured by opening the source again. Darkness
is not: it is only told.
"""

import numpy as np

from edgemeta.daemon.capture.source import Frame, Pixels, SourceError
from edgemeta.daemon.runtime.clock import NS

GRID = 32
"""Every GRID-th pixel of every GRID-th row is looked at first: a picture that moves is told by them in microseconds."""

BLACK = 16
"""Greatest value of a channel that counts as black: video's own black level in limited range."""


class FrameCheck:
    """Looks at each picture from one opening of a source to the next.

    frozen, black: seconds of it that are let pass; None lets it always.
    """

    def __init__(self, frozen: float | None, black: float | None) -> None:
        self._frozen = frozen
        self._black = black
        self._before: Pixels | None = None
        self._moved_ns = self._lit_ns = 0

    def look(self, frame: Frame) -> str | None:
        """Return what is odd but no fault, in words. Raises SourceError where the source must be opened again."""
        pixels, now = frame.pixels, frame.captured_ns
        before, self._before = self._before, pixels
        if pixels.size == 0:
            raise SourceError("the picture is empty")
        if before is None:
            self._moved_ns = self._lit_ns = now
        elif before.shape != pixels.shape:
            raise SourceError(f"the pictures changed from {_size(before)} to {_size(pixels)}")
        elif self._frozen is not None and not _same(before, pixels):
            self._moved_ns = now
        elif self._frozen is not None and now - self._moved_ns > self._frozen * NS:
            raise SourceError(f"frozen: the same picture for {self._frozen:g} s")
        if self._black is None or pixels[::GRID, ::GRID].max() > BLACK:
            self._lit_ns = now
        dark = self._black is not None and now - self._lit_ns > self._black * NS
        return f"black for {self._black:g} s or longer" if dark else None


def _same(one: Pixels, other: Pixels) -> bool:
    """Tell whether all pixels are equal: first those of the grid, and only if these are, the others."""
    return np.array_equal(one[::GRID, ::GRID], other[::GRID, ::GRID]) and np.array_equal(one, other)


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
