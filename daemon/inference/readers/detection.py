"""Readings of detections: the objects that the config lets through, with their boxes and zones."""

from collections.abc import Mapping, Sequence

from edgemeta.daemon.config.objects import ZoneConfig
from edgemeta.daemon.inference.readers.reading import Picture, Reader, Reading, tiles_of
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.records import Fields
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.results import reader
from edgemeta.tasks.tiles import in_frame, merge


def detection_reader(model: Model, task: Detection, settings: CameraSettings) -> Reader:
    """Reads the objects of a frame; those of several tiles are merged."""
    names = {label: settings.labels.get(label, label) for label in task.labels}
    scores = settings.objects.scores
    decode = reader(model, thresholds={label: scores[name] for label, name in names.items() if name in scores})

    def read(outputs: Outputs, picture: Picture) -> Reading:
        tiles = [
            in_frame(decode(one).objects, placement, tile)
            for one, tile, placement in zip(tiles_of(outputs), picture.tiles, picture.placements, strict=True)
        ]
        objects = tiles[0] if len(tiles) == 1 else merge(tiles, task.overlap_threshold, task.max_objects)
        fields = (_fields(names[each.label], each, picture, settings) for each in objects)
        return Reading(objects=[each for each in fields if each is not None])

    return read


def _fields(label: str, found: Object, picture: Picture, settings: CameraSettings) -> Fields | None:
    """The fields of an object; None where the config leaves it out."""
    x0, y0, x1, y1 = found.box
    left, top, right, bottom = x0 / picture.width, y0 / picture.height, x1 / picture.width, y1 / picture.height
    filters = settings.objects
    if filters.labels is not None and label not in filters.labels:
        return None
    if not filters.min_area <= (right - left) * (bottom - top) <= filters.max_area:
        return None
    return {
        "label": label,
        "score": round(found.score, 6),
        "box": (round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1)),
        "box_relative": (round(left, 5), round(top, 5), round(right, 5), round(bottom, 5)),
        "zones": zones_of(label, ((left + right) / 2, bottom), settings.zones),
    }


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
