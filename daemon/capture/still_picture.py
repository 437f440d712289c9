"""Whether a picture stands still: a camera that repeats one picture, also one that encodes it again and again.

An encoder changes a still picture, too: with each key frame, by its rate control, by refinement. It changes the whole
picture at once, and in a few ways that return. What a sensor sees moves in some place, or is noise that never returns.
So over the samples of a window:

- motion: the mean of some block varies by more than `MOTION` and by much more than the median block does;
- noise: of all pictures at least a quarter of the window away, the nearest one (the twin) differs nearly as much as the
  median one. Many pictures of an encoded still have near twins.

A picture with neither stands still. A clock drawn over it changes one small spot all the time; the rows of blocks with
such a spot are left out. docs/decisions/0068-frozen-pictures.md has the measurements.
"""

import itertools
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.runtime.clock import NS

SAMPLES = 48
"""Most samples of a window."""

FASTEST_NS = NS // 4
"""Least time between two samples."""

FEWEST = 8
"""Fewest samples that decide; with fewer frames per second the window is longer."""

MOTION, MOTION_PART = 3.0, 0.045
"""Least variation of a block's mean that is motion: in levels of 255, and as a part of the difference between the
brightest and the darkest block, as what an encoder leaves grows with the picture's contrast."""

LEAVE = 1.5
"""A picture that stands still lives again with motion so many times stronger, or with noise for half a window: a coarse
encoder may change its ways for a moment."""

TWIN, NOISE = 0.52, 0.75
"""Distance to the twin, divided by the median distance, up to which a picture is an encoded still, and from which on
pictures differ by noise. Between the two it stays what it was."""

NEAREST = 25
"""The per cent of the pictures whose twins count, those with the nearest ones: just after a key frame there is none."""

EQUAL = 0.05
"""Median distance, in levels, up to which pictures count as equal."""

SEGMENTS, ACTIVE = 5, 4
"""A clock changes its spot in so many of the window's segments; what moves through the picture does not."""

CLOCK_MOTION, CLOCK_OVER_MEDIAN = 0.7, 5.0
"""Least variation of a block within such a segment that may be a clock: in levels, and by the median block's."""

CLOCK_AREA, CLOCK_ROWS = 0.04, 2
"""Largest part of the blocks, and most rows of blocks, that count as a clock."""

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


class StillPicture:
    """Decides whether the picture has stood still for `seconds`.

    `still` stays until the picture changes, also while no picture comes.
    """

    def __init__(self, seconds: float) -> None:
        self._window_ns = round(seconds * NS)
        self._interval_ns = min(max(FASTEST_NS, self._window_ns // SAMPLES), self._window_ns // FEWEST)
        self._due_ns = 0
        self._forget()
        self._twin_ns = 0
        self.still = False

    def _forget(self) -> None:
        self._times = np.zeros(0, np.int64)
        self._blocks = np.zeros((0, 0, 0), np.float32)  # [n, rows, columns]
        self._points = np.zeros((0, 0, 0), np.float32)  # [n, rows, points], without the mean of each row
        self._distances = np.zeros((0, 0, 0), np.float32)  # [n, n, rows of blocks], levels; of the first n samples
        self.rows: NDArray[np.bool_] = np.ones(0, np.bool_)
        """Rows of blocks that are compared, those without a clock drawn over them; none before the first window."""

    def due(self, now_ns: int) -> bool:
        """Return whether a sample at this monotonic time is of use."""
        return now_ns >= self._due_ns

    def add(self, sample: PictureSample, now_ns: int) -> None:
        """Add a sample and decide again. Samples of another shape are a change."""
        self._due_ns = now_ns + self._interval_ns
        if len(self._times) and self._points.shape[1:] != sample.points.shape:
            self._forget()
            self.still = False
        self._append(sample, now_ns)
        if len(self._times) >= FEWEST and now_ns - self._times[0] >= self._window_ns:
            self._decide(now_ns)

    def _append(self, sample: PictureSample, now_ns: int) -> None:
        """Add a sample, and drop those that are older than the window and not needed any more."""
        old = self._times < now_ns - self._window_ns - self._interval_ns
        first = min(int(old.sum()), max(0, len(old) + 1 - FEWEST))
        self._times = np.append(self._times[first:], now_ns)
        self._blocks = _with(self._blocks[first:], sample.blocks)
        points = sample.points.astype(np.float32)
        points -= points.mean(axis=1, keepdims=True)  # light that flickers is no difference
        self._points = _with(self._points[first:], points)
        self._distances = self._distances[first:, first:]

    def _decide(self, now_ns: int) -> None:
        """Decide from a whole window."""
        blocks = self._blocks
        limit = max(MOTION, MOTION_PART * float(np.ptp(blocks.mean(axis=0)))) * (LEAVE if self.still else 1)
        moves = (blocks.max(axis=0) - blocks.min(axis=0) > limit).any(axis=1)
        may_be_clock = 0 < moves.sum() <= 3 * CLOCK_ROWS
        rows = _rows_without_clock(blocks) if may_be_clock else np.ones(len(moves), np.bool_)
        self.rows = rows & self.rows if self.still else rows
        if moves[self.rows].any():
            self.still = False
            return
        twins = self._distance_of_twins()
        if twins <= TWIN:
            self.still, self._twin_ns = True, now_ns
        elif twins < NOISE:
            self._twin_ns = now_ns
        elif now_ns - self._twin_ns > self._window_ns // 2:
            self.still = False

    def _distance_of_twins(self) -> float:
        """Return how far pictures are from their twins, as a part of the median distance; 0 if all are equal."""
        self._complete_distances()
        distances = self._distances[..., self.rows].mean(axis=2)
        far = np.abs(self._times[:, None] - self._times) * 4 >= self._times[-1] - self._times[0]
        typical = float(np.median(distances[far]))
        twins = np.where(far, distances, np.inf).min(axis=1)
        return float(np.percentile(twins, NEAREST)) / typical if typical > EQUAL else 0.0

    def _complete_distances(self) -> None:
        """Add the distances of the samples since the last time: none are needed while something moves."""
        known, number = len(self._distances), len(self._times)
        distances = np.zeros((number, number, len(self.rows)), np.float32)
        if known:
            distances[:known, :known] = self._distances
        for each in range(known, number):
            new = np.abs(self._points[: each + 1] - self._points[each]).mean(axis=2)
            distances[each, : each + 1] = distances[: each + 1, each] = new
        self._distances = distances


def _with(kept: NDArray[np.float32], new: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return samples [n, ...] with another one."""
    return np.concatenate((kept, new[np.newaxis])) if len(kept) else new[np.newaxis]


def _rows_without_clock(blocks: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the rows of blocks [n, rows, columns] to compare: without those of a clock, and their neighbours."""
    ends = np.linspace(0, len(blocks) - 1, SEGMENTS + 1).astype(int)
    parts = (np.ptp(blocks[begin : end + 1], axis=0) for begin, end in itertools.pairwise(ends))
    active = (part > max(CLOCK_MOTION, CLOCK_OVER_MEDIAN * float(np.median(part))) for part in parts)
    clock = sum(active) >= ACTIVE
    rows = clock.any(axis=1)
    if len(rows) < ROWS or clock.mean() > CLOCK_AREA or rows.sum() > CLOCK_ROWS:
        return np.ones(len(rows), np.bool_)
    return np.asarray(np.convolve(rows, np.ones(3), "same") == 0)


def sample_of(pixels: Pixels) -> PictureSample:
    """Sample a picture [H, W, 3], BGR, not empty. Samples of pictures of one size have one shape."""
    height, width = pixels.shape[:2]
    down, across = max(1, height // (ROWS * READ_PER_SIDE)), max(1, width // (COLUMNS * READ_PER_SIDE))
    luma = luma_of(pixels, down, across)
    rows, columns = min(ROWS, luma.shape[0]), min(COLUMNS, luma.shape[1])
    blocks = cv2.resize(luma.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    parts = zip((rows, columns), luma.shape, strict=True)
    chosen = np.ix_(*(_middles(POINTS_PER_SIDE * number, size) for number, size in parts))
    return PictureSample(np.asarray(blocks, np.float32), np.asarray(luma[chosen], np.uint8).reshape(rows, -1))


def luma_of(pixels: Pixels, down: int, across: int) -> NDArray[np.uint8]:
    """Return the luma [rows, columns] of pixels [H, W, 3] so far apart, from the middle of the first ones on."""
    rows = cv2.cvtColor(pixels[down // 2 :: down], cv2.COLOR_BGR2GRAY)  # whole rows: faster than to pick three channels
    return np.ascontiguousarray(rows[:, across // 2 :: across], np.uint8)


def _middles(parts: int, length: int) -> NDArray[np.intp]:
    """Return the indices of the middles of so many equal parts of a length."""
    return ((2 * np.arange(parts) + 1) * length // (2 * parts)).astype(np.intp)
