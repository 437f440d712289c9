"""A label for each cell of a grid over the picture, and the share of each label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Box, Placement
from edgemeta.model.tasks import Segmentation
from edgemeta.tasks.numbers import Float64, Output

NO_LABEL = -1
"""In place of the label of a cell that has none."""
Cells = NDArray[np.int16]
"""Places of labels [H, W], or NO_LABEL."""


class SegmentationReader:
    """Labels of cells; built once for a model."""

    def __init__(self, model: Model) -> None:
        task = model.task
        assert isinstance(task, Segmentation)
        self._least: NDArray[Any] | None = None
        if len(task.labels) == 1:
            self._least = _least(Output(model, model.outputs[0], 1), task.score_threshold)

    def cells(self, integers: NDArray[Any]) -> Cells:
        """The label of each cell, from the integers [H, W, C] of one image; see `Segmentation`."""
        if self._least is not None:
            return np.where(integers[..., 0] >= self._least, 0, NO_LABEL).astype(np.int16)
        best: Cells = integers.argmax(axis=2).astype(np.int16)
        return best


def _least(output: Output, threshold: float) -> NDArray[Any]:
    """The least integer [1] whose number v has sigmoid(v) >= threshold: step * (q - zero_point) >= log(t / (1 - t))."""
    least = output.zero_point + np.log(threshold / (1 - threshold)) / output.steps
    reached: NDArray[np.int64] = np.clip(np.ceil(least), output.lo, output.hi + 1.0).astype(np.int64)
    return reached


def cells_of_numbers(task: Segmentation, numbers: NDArray[Any]) -> Cells:
    """The same from real numbers [..., H, W, C], as those of a float network."""
    if len(task.labels) == 1:
        least = np.log(task.score_threshold / (1 - task.score_threshold))
        return np.where(numbers[..., 0] >= least, 0, NO_LABEL).astype(np.int16)
    best: Cells = numbers.argmax(axis=-1).astype(np.int16)
    return best


@dataclass(frozen=True, eq=False)
class Segments:
    """The cells [H, W] that show the frame. box: the part of the frame that they cover, in pixels."""

    cells: Cells
    box: Box

    def shares(self, labels: int) -> Float64:
        """The share [labels] of the cells that each label has."""
        counts = np.bincount(self.cells.ravel() + 1, minlength=labels + 1)[1:]
        shares: Float64 = counts / self.cells.size
        return shares

    def ranked(self, names: Sequence[str], least: float = 0.0) -> tuple[tuple[str, float], ...]:
        """Labels by these names with their shares above 0, from the least one on: the greatest first, then in order."""
        every = zip(names, self.shares(len(names)).tolist(), strict=True)
        return tuple(sorted(((n, s) for n, s in every if s >= least and s > 0), key=lambda each: -each[1]))

    def coarse(self, most: int) -> Cells:
        """At most `most` rows and columns: n of N cells are those at floor((2 i + 1) N / (2 n)), i = 0 .. n - 1."""
        chosen = [(2 * np.arange(n) + 1) * side // (2 * n) for side in self.cells.shape for n in [min(most, side)]]
        return self.cells[np.ix_(*chosen)]


def in_picture(cells: Cells, image: tuple[int, int], placement: Placement) -> Segments:
    """The cells whose centres lie in the frame, of those over an input of (H, W) pixels; at least one in each axis."""
    height, width = cells.shape
    x, y = image[1] / width, image[0] / height
    left, right = _inside(width, x * placement.scale_x, placement.offset_x, placement.frame_width)
    top, bottom = _inside(height, y * placement.scale_y, placement.offset_y, placement.frame_height)
    box = placement.to_frame((left * x, top * y, right * x, bottom * y))
    return Segments(cells[top:bottom, left:right], box)


def _inside(count: int, step: float, offset: float, side: int) -> tuple[int, int]:
    """First and last cell (exclusive) whose centre step * (i + 1/2) + offset lies in 0 .. side."""
    centres = step * (np.arange(count) + 0.5) + offset
    found = ((centres >= 0) & (centres < side)).nonzero()[0]
    if not len(found):
        nearest = int(np.abs(centres - side / 2).argmin())
        return nearest, nearest + 1
    return int(found[0]), int(found[-1]) + 1


def runs(cells: Cells) -> list[int]:
    """Cells row by row as label and length of each run, alternately."""
    flat = cells.ravel()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    lengths = np.diff(np.concatenate([starts, [flat.size]]))
    pairs: list[int] = np.stack([flat[starts], lengths], axis=1).ravel().tolist()
    return pairs
