"""Whether a camera shows what it showed before, or was moved, turned or covered.

Compared are directions of edges on a coarse grid, with the strength of each edge divided by itself and a little more:
brighter or darker light changes them hardly, people and cars only where they are. The picture they are compared with
follows slowly, so the course of a day is no change.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.capture.still_picture import luma_of
from edgemeta.daemon.runtime.clock import NS

COLUMNS, ROWS = 96, 54
"""Of the grid."""
READ_PER_SIDE = 4
"""At least so many pixels of a cell's side are read, at equal distances, where it has so many."""

SOFT = 8.0
"""Levels of an edge (sum of Sobel's weights) that counts half: weaker ones are noise."""

APART, ALIKE = 0.35, 0.5
"""Below APART views differ, from ALIKE on they are the same again; 1 is equal, 0 what any two views have in common."""

LEAST_EDGES = 0.01
"""Mean square of the edges of a view below which it has nothing to be recognized by."""

LOOK_EVERY_NS = NS // 2
WEIGHT = 0.02
"""Of a new view in the one that is known, which so follows within about 25 s."""

ADOPTED_AFTER_NS = 600 * NS
"""After so long a view that is another one becomes the known one."""


class SteadyView:
    """Follows the view of one camera, over all openings of its source.

    seconds: how long the view must be another one until it counts as moved.
    """

    def __init__(self, seconds: float) -> None:
        self._patience_ns = round(seconds * NS)
        self._due_ns = 0
        self._known: NDArray[np.float32] | None = None
        self._other: NDArray[np.float32] | None = None
        self._views = 0
        self._alike_ns = self._moved_ns = 0
        self.moved = False
        """Whether the view is another one; it stays until it is the known one again, or has become that."""

    def add(self, pixels: Pixels, now_ns: int) -> None:
        """Look at a picture [H, W, 3], BGR, not empty, at a monotonic time; not at each."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + LOOK_EVERY_NS
        view = view_of(pixels)
        if self._known is None:
            self._know(view, now_ns)
            return
        likeness = likeness_of(self._known, view)
        if self.moved:
            self._look_at_other(view, likeness, now_ns)
            return
        if likeness >= APART:
            self._alike_ns = now_ns
            self._views += 1
            self._known = _followed(self._known, view, max(WEIGHT, 1 / self._views))
        elif now_ns - self._alike_ns > self._patience_ns:
            self.moved, self._other, self._moved_ns = True, view, now_ns

    def _know(self, view: NDArray[np.float32], now_ns: int) -> None:
        self._known, self._other, self._views, self._alike_ns, self.moved = view, None, 1, now_ns, False

    def _look_at_other(self, view: NDArray[np.float32], likeness: float, now_ns: int) -> None:
        assert self._other is not None
        self._other = _followed(self._other, view, WEIGHT)
        if likeness >= ALIKE:
            self.moved, self._other, self._alike_ns = False, None, now_ns
        elif now_ns - self._moved_ns > ADOPTED_AFTER_NS:
            self._know(self._other, now_ns)


def view_of(pixels: Pixels) -> NDArray[np.float32]:
    """Return the edges of a picture, float32 [2, ROWS, COLUMNS]: across and down, each -1 to 1."""
    height, width = pixels.shape[:2]
    steps = max(1, height // (ROWS * READ_PER_SIDE)), max(1, width // (COLUMNS * READ_PER_SIDE))
    cells = cv2.resize(luma_of(pixels, *steps), (COLUMNS, ROWS), interpolation=cv2.INTER_AREA)
    across, down = cv2.Sobel(cells, cv2.CV_32F, 1, 0), cv2.Sobel(cells, cv2.CV_32F, 0, 1)
    return np.asarray(np.stack((across, down)) / (np.hypot(across, down) + SOFT), np.float32)


def likeness_of(known: NDArray[np.float32], view: NDArray[np.float32]) -> float:
    """Return the correlation of two views [2, ROWS, COLUMNS]; 1 where the known one has nothing to be recognized by."""
    squares = float(np.mean(known * known))
    if squares < LEAST_EDGES:
        return 1.0
    return float(np.mean(known * view)) / float(np.sqrt(squares * np.mean(view * view) + 1e-12))


def _followed(known: NDArray[np.float32], view: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    return np.asarray((1 - weight) * known + weight * view, np.float32)
