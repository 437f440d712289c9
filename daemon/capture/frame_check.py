"""Checks of a live camera's frames: not empty, size unchanged, not frozen, not black.

A sensor has noise, so identical frames are rare; identical frames for half a minute mean that camera, driver or decoder
repeat a frame. Reopening the source helps against that, and against an empty frame or a changed size. Black frames are
only reported.
"""

import numpy as np

from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import Frame, Pixels, SourceError
from edgemeta.daemon.runtime.clock import NS

GRID = 32
"""Every GRID-th pixel of every GRID-th row is compared first: that finds motion within microseconds."""

BLACK = 16
"""Largest channel value that counts as black: the black level of limited-range video."""


class FrameCheck:
    """Checks each frame of a source, from one `open` to the next.

    frozen_after, black_after: seconds of such frames that are accepted; None accepts them without limit.
    """

    def __init__(self, frozen_after: float | None, black_after: float | None) -> None:
        self._frozen_after = frozen_after
        self._black_after = black_after
        self._before: Pixels | None = None
        self._changed_ns = self._lit_ns = 0

    def check(self, frame: Frame) -> str | None:
        """Return a warning, None without one. Raises SourceError if the source must be reopened."""
        pixels, now = frame.pixels, frame.captured_ns
        before, self._before = self._before, pixels
        if pixels.size == 0:
            raise SourceError("the frame is empty")
        if before is None:
            self._changed_ns = self._lit_ns = now
        elif before.shape != pixels.shape:
            raise SourceError(f"frame size changed from {_size(before)} to {_size(pixels)}", Retry.AT_ONCE)
        elif self._frozen_after is not None and not _same(before, pixels):
            self._changed_ns = now
        elif self._frozen_after is not None and now - self._changed_ns > self._frozen_after * NS:
            raise SourceError(f"frozen: identical frames for {self._frozen_after:g} s")
        if self._black_after is None or pixels[::GRID, ::GRID].max() > BLACK:
            self._lit_ns = now
        dark = self._black_after is not None and now - self._lit_ns > self._black_after * NS
        return f"black for {self._black_after:g} s or longer" if dark else None


def _same(one: Pixels, other: Pixels) -> bool:
    """Return whether all pixels are equal: the grid's first, the others only if those are."""
    return np.array_equal(one[::GRID, ::GRID], other[::GRID, ::GRID]) and np.array_equal(one, other)


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
