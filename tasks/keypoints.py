"""Named points of one thing, from a vector of coordinates."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Placement
from edgemeta.model.tasks import Keypoints
from edgemeta.tasks.numbers import Output


class Keypoint(NamedTuple):
    """A point. x, y: in pixels of the network's input, or of the frame. score: 0 .. 1, None where there is none."""

    name: str
    x: float
    y: float
    score: float | None


class KeypointReader:
    """The points of `Keypoints`; built once for a model."""

    def __init__(self, model: Model) -> None:
        task = model.task
        assert isinstance(task, Keypoints)
        self._task = task
        self._output = Output(model, model.outputs[0], model.output_types[0].shape[2])
        height, width, _ = model.input.shape
        self._unit = (width, height) if task.unit == "fraction" else (1, 1)

    def points(self, integers: NDArray[Any]) -> tuple[Keypoint, ...]:
        """The points of one image from its integers [2 K or 3 K], in the order of the names."""
        numbers = self._output.values(integers.reshape(1, -1), np.zeros(1, np.int64))
        parts = dict(zip(self._task.layout, numbers.reshape(-1, len(self._task.layout)).T, strict=True))
        across, down = (parts[axis] * unit for axis, unit in zip("xy", self._unit, strict=True))
        scores = np.clip(parts["s"], 0.0, 1.0).tolist() if "s" in parts else [None] * len(across)
        every = zip(self._task.names, across.tolist(), down.tolist(), scores, strict=True)
        return tuple(Keypoint(*each) for each in every)


def points_in_frame(points: Iterable[Keypoint], placement: Placement) -> tuple[Keypoint, ...]:
    """Points in pixels of the frame in which the input lies so; one outside of it is moved to its edge."""
    moved = ((each, placement.to_frame((each.x, each.y, each.x, each.y))) for each in points)
    return tuple(each._replace(x=x, y=y) for each, (x, y, _, _) in moved)
