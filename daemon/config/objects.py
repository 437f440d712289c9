"""Config of detected objects: which of them count, and the zones and lines of a camera."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from edgemeta.daemon.config.section import Label, Seconds, Section, ShownName

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Score = Annotated[float, Field(ge=0.001, le=0.999, allow_inf_nan=False)]
Point = Annotated[list[Share], Field(min_length=2, max_length=2)]


def _has_area(polygon: list[list[float]]) -> list[list[float]]:
    twice = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(polygon, polygon[1:] + polygon[:1], strict=True))
    if abs(twice) < 1e-6:
        raise ValueError("at least 3 points that enclose an area")
    return polygon


Polygon = Annotated[list[Point], Field(min_length=3, max_length=64), AfterValidator(_has_area)]
"""Corners `[x, y]` as fractions of a picture's width and height, in order."""


class ObjectsConfig(Section):
    """Which detected objects are reported and counted. Labels are those of messages, after `label_map`."""

    labels: Annotated[list[Label], Field(min_length=1)] | None = Field(
        default=None, description="Labels to report; null reports all."
    )
    scores: dict[Label, Score] = Field(
        default={}, description="Least score of a label, `label: score`; others have the model's own."
    )
    label_overlap: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Boxes of different labels whose intersection over union is greater are one object, which has the "
        "label of the greatest score. null: as the model says; 1: labels do not exclude each other.",
    )
    min_area: Share = Field(default=0.0, description="Least area of a box, as a fraction of the picture.")
    max_area: Share = Field(default=1.0, description="Greatest area of a box, as a fraction of the picture.")

    @model_validator(mode="after")
    def _ordered(self) -> "ObjectsConfig":
        if self.min_area > self.max_area:
            raise ValueError(f"`min_area` ({self.min_area:g}) no greater than `max_area` ({self.max_area:g})")
        return self


class ZoneConfig(Section):
    """A part of the picture in which objects are counted separately."""

    name: ShownName | None = Field(
        default=None, description="Name of the zone for people, in Home Assistant; null is that in messages."
    )
    polygon: Polygon = Field(
        description="Corners `[x, y]` as fractions of the picture's width and height, in order. An object is inside if "
        "the middle of its lower edge is."
    )
    labels: Annotated[list[Label], Field(min_length=1)] | None = Field(
        default=None, description="Labels to count in the zone; null counts all."
    )
    loitering_s: Seconds | None = Field(
        default=None, description="Seconds in the zone after which an object is `loitering`; null: no such events."
    )


def _two_points(points: list[list[float]]) -> list[list[float]]:
    if points[0] == points[1]:
        raise ValueError("two different points")
    return points


class LineConfig(Section):
    """A line in the picture; objects that cross it are reported with the side to which they go."""

    points: Annotated[list[Point], Field(min_length=2, max_length=2), AfterValidator(_two_points)] = Field(
        description="Its two ends `[x, y]` as fractions of the picture's width and height. What crosses it is the "
        "middle of an object's lower edge; left and right are those of somebody who walks from the first to the second."
    )
    labels: Annotated[list[Label], Field(min_length=1)] | None = Field(
        default=None, description="Labels that are reported at the line; null reports all."
    )
