"""What a user says about the outputs of a network."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgemeta.model.tasks import Decoding, PointLayout, PointUnit, TaskName

Anchors: TypeAlias = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class TaskSettings:
    """Everything may be left out; what is not given is recognized, or has the default of `edgemeta.model.tasks`.

    outputs: tensors of the file at which the network is cut. anchors: width and height in pixels of each anchor of each
    level; strides: pixels (x, y) from one cell to the next, of each level; both from the finest grid to the coarsest.
    point_names: of the points of objects.
    """

    task: TaskName | None = None
    labels: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ()
    decoding: Decoding | None = None
    anchors: tuple[Anchors, ...] = ()
    strides: tuple[tuple[float, float], ...] = ()
    box_order: Literal["xywh", "yxhw"] = "xywh"
    score_threshold: float | None = None
    overlap_threshold: float | None = None
    max_objects: int | None = None
    point_layout: PointLayout = "xy"
    point_unit: PointUnit = "pixels"
    point_names: tuple[str, ...] | None = None
