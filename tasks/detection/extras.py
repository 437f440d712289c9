"""What the objects of a detection have beside their boxes: points, or the outlines of masks."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection, ObjectMasks, ObjectPoints
from edgemeta.tasks.detection.boxes import Cells
from edgemeta.tasks.detection.level import Indices, Outputs
from edgemeta.tasks.detection.outlines import outline
from edgemeta.tasks.keypoints import Keypoint
from edgemeta.tasks.numbers import Float64, Output, limited, sigmoid

Corners: TypeAlias = tuple[tuple[float, float], ...]
"""x and y of each corner of a polygon, in pixels of the network's input, or of the frame."""
_FIRST = np.zeros(1, np.int64)


class Extras(NamedTuple):
    """keypoints: in the order of their names. outline: of its mask, empty where no cell of the box is of it."""

    keypoints: tuple[Keypoint, ...] = ()
    outline: Corners = ()


class ExtrasReader:
    """Reads what belongs to objects from the rows of their boxes. Built once for a model.

    cells: of the rows of all levels. starts: the first row of each level, and one behind the last. outlines: whether
    masks are read.
    """

    def __init__(
        self, model: Model, task: Detection, cells: Cells, starts: NDArray[np.int64], *, outlines: bool = True
    ) -> None:
        self._cells, self._starts = cells, starts
        names = [level.extras for level in task.levels if level.extras is not None]
        self._meaning = task.extras if outlines or isinstance(task.extras, ObjectPoints) else None
        match task.extras:
            case ObjectPoints(names=points, layout=layout):
                width = len(points) * len(layout)
            case ObjectMasks(prototypes=name):
                width = model.types[name].shape[2]
                self._prototypes = Output(model, name, width)
                height, across, _ = model.types[name].shape
                rows, columns, _ = model.input.shape
                self._grid, self._side = (height, across), np.array([columns / across, rows / height])
            case None:
                width = 0
        self._outputs = [Output(model, name, width) for name in names]

    def read(self, outputs: Outputs, rows: Indices, boxes: Float64) -> Iterator[Extras]:
        """Of objects in these rows [n] with boxes [n, 4] inside of the input, in their order."""
        match self._meaning:
            case ObjectPoints() as points:
                yield from (Extras(keypoints=each) for each in self._points(points, outputs, rows))
            case ObjectMasks():
                yield from (Extras(outline=each) for each in self._outlines(outputs, rows, boxes))
            case None:
                yield from (Extras() for _ in rows)

    def _rows_of(self, outputs: Outputs, rows: Indices) -> Iterator[tuple[NDArray[np.bool_], Output, Any, Indices]]:
        """For each level with some of the rows: which they are, its output, their integers, their rows of the level."""
        for output, start, end in zip(self._outputs, self._starts, self._starts[1:], strict=False):
            mine = (rows >= start) & (rows < end)
            if mine.any():
                own = rows[mine] - start
                yield mine, output, output.rows(outputs[output.position])[own], own

    def _points(self, task: ObjectPoints, outputs: Outputs, rows: Indices) -> Iterator[tuple[Keypoint, ...]]:
        count, width = len(task.names), len(task.layout)
        numbers = np.empty((len(rows), count, width))
        for mine, output, integers, own in self._rows_of(outputs, rows):
            numbers[mine] = limited(output.values(integers, own)).reshape(-1, count, width)
        cells = self._cells[rows]
        unit = cells.stride if task.unit == "stride" else cells.anchor
        first = (cells.place + task.origin) * cells.stride
        places = first[:, np.newaxis] + task.factor * numbers[..., :2] * unit[:, np.newaxis]
        scores = sigmoid(numbers[..., 2]).tolist() if task.layout == "xys" else [[None] * count] * len(rows)
        for some, each in zip(places.tolist(), scores, strict=True):
            yield tuple(Keypoint(*point) for point in zip(task.names, *zip(*some, strict=True), each, strict=True))

    def _outlines(self, outputs: Outputs, rows: Indices, boxes: Float64) -> Iterator[Corners]:
        """The sign of a sum is that of integers where an output has one step: it is the same in any order of adding."""
        every = self._prototypes
        prototypes = every.rows(outputs[every.position]).reshape(*self._grid, -1)
        coefficients = np.empty((len(rows), every.width))
        for mine, output, integers, own in self._rows_of(outputs, rows):
            coefficients[mine] = _plain(output, integers, own)
        for some, box in zip(coefficients, boxes, strict=True):
            low = np.maximum(np.floor(box[:2] / self._side).astype(np.int64) - 1, 0)
            high = np.ceil(box[2:] / self._side).astype(np.int64) + 1
            near = prototypes[low[1] : high[1], low[0] : high[0]]
            corners = outline(_plain(every, near, _FIRST) @ some)
            inside = np.minimum(np.maximum((corners + low) * self._side, box[:2]), box[2:])
            yield tuple((x, y) for x, y in inside.tolist())


def _plain(output: Output, integers: NDArray[Any], rows: Indices) -> Float64:
    """Integers [..., width] less their zero point where all have one step, otherwise the numbers they represent."""
    plain: Float64 = np.subtract(integers, output.zero_point, dtype=np.float64)
    return plain if output.has_one_step else output.values(integers, rows)
