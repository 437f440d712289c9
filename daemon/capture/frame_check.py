"""Checks of a live camera's frames: not empty, size unchanged, the picture neither frozen nor black."""

import cv2
import numpy as np

from edgemeta.daemon.capture.picture_sample import PictureSample, sample_of
from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import Frame, SourceError
from edgemeta.daemon.capture.still_picture import FASTEST_NS, FEWEST, StillPicture
from edgemeta.daemon.runtime.clock import NS

BLACK = 16
"""Largest luma that counts as black: the black level of limited-range video."""

BRIGHT, BRIGHT_POINTS = 3 * BLACK, 3
"""So many single pixels brighter than this are a light, though their blocks are black; one or two are defects."""

FLAT = 2.0
"""Largest difference between the parts of a black picture but for a twentieth at either end, in levels: a dark street
shows more."""

PARTS = (8, 6)
"""Columns and rows of parts for that."""


class FrameCheck:
    """Checks the frames of a camera, also over several openings of its source.

    frozen_after, black_after: seconds of such pictures that are accepted; None accepts them without limit.
    """

    def __init__(self, frozen_after: float | None, black_after: float | None) -> None:
        self._still = StillPicture(frozen_after) if frozen_after is not None else None
        self._black_after = black_after
        shortest = min((frozen_after or 3600) / FEWEST, (black_after or 3600) / FEWEST)
        self._interval_ns = min(FASTEST_NS, round(shortest * NS))
        self._due_ns = 0
        self._size: tuple[int, ...] = ()
        self._lit_ns: int | None = None
        self.black = False
        """Whether the picture has been black for so long; it stays until a picture is not."""

    @property
    def frozen(self) -> bool:
        """Whether the picture has stood still for so long; it stays until the picture changes."""
        return self._still is not None and self._still.still

    def begin(self) -> None:
        """The source was opened: its frames may have another size. What was seen before stays."""
        self._size = ()

    def check(self, frame: Frame) -> None:
        """Check a frame. Raises SourceError if the source must be reopened."""
        pixels, now = frame.pixels, frame.captured_ns
        if pixels.size == 0:
            raise SourceError("the frame is empty")
        if self._size and self._size != pixels.shape:
            raise SourceError(f"frame size changed from {_size(self._size)} to {_size(pixels.shape)}", Retry.AT_ONCE)
        self._size = pixels.shape
        if now < self._due_ns:
            return
        self._due_ns = now + self._interval_ns
        sample = sample_of(pixels)
        if self._still is not None and self._still.due(now):
            self._still.add(sample, now)
        if self._black_after is not None:
            if self._lit_ns is None or not self._is_black(sample):
                self._lit_ns = now
            self.black = now - self._lit_ns > self._black_after * NS

    def _is_black(self, sample: PictureSample) -> bool:
        """Return whether the picture is black but for a clock drawn over it."""
        rows = slice(None) if self._still is None or not len(self._still.rows) else self._still.rows
        blocks, points = sample.blocks[rows], sample.points[rows]
        parts = cv2.resize(blocks, PARTS, interpolation=cv2.INTER_AREA)
        darkest, brightest = np.percentile(parts, (5, 95))
        return bool(blocks.max() <= BLACK and brightest - darkest <= FLAT and (points > BRIGHT).sum() < BRIGHT_POINTS)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}"
