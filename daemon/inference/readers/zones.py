"""In which zones of a picture a point lies."""

from collections.abc import Mapping, Sequence

from edgemeta.daemon.config.objects import ZoneConfig


def zones_of(label: str, point: tuple[float, float], zones: Mapping[str, ZoneConfig]) -> list[str]:
    """Names of the zones that count objects of this label and in which the point lies, as fractions of the picture."""
    return [
        name
        for name, zone in zones.items()
        if (zone.labels is None or label in zone.labels) and is_inside(point, zone.polygon)
    ]


def is_inside(point: tuple[float, float], polygon: Sequence[Sequence[float]]) -> bool:
    """Whether a point lies inside a polygon, by the even-odd rule.

    A ray from the point to the right crosses the sides of the polygon an odd number of times.

    An edge counts where it crosses the point's height from y0 <= y < y1 (or y1 <= y < y0), so that a corner is crossed
    once. y is limited to just below 1: a point on the picture's lower edge belongs to a zone that reaches it.
    """
    x, y = point[0], min(point[1], 1 - 1e-9)
    inside = False
    for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y0 <= y) != (y1 <= y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            inside = not inside
    return inside
