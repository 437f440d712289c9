"""Readings of detections: the objects that the config lets through, with their boxes and zones."""

from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.readers.zones import zones_of
from edgemeta.daemon.messages.frame_fields import ObjectFields
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.tiles import in_frame, merge


class DetectionReader:
    """As `Reader`. Objects of several tiles are merged."""

    def __init__(self, model: Model, settings: CameraSettings) -> None:
        task = model.task
        assert isinstance(task, Detection)
        self._aliases = {label: settings.labels.get(label, label) for label in task.labels}
        self._task = task
        self._settings = settings
        self._wanted = settings.objects.labels and frozenset(settings.objects.labels)
        scores = settings.objects.scores
        self._detector = Detector(
            model, {label: scores[alias] for label, alias in self._aliases.items() if alias in scores}
        )

    def read(self, outputs: Outputs, picture: Picture) -> Reading:
        """As `Reader.read`."""
        tiles = []
        for number, (tile, placement) in enumerate(zip(picture.tiles, picture.placements, strict=True)):
            found = self._detector.objects(tuple(output[number] for output in outputs))
            tiles.append(in_frame(found, placement, tile))
        objects = tiles[0] if len(tiles) == 1 else merge(tiles, self._task.overlap_threshold, self._task.max_objects)
        return Reading(objects=[fields for each in objects if (fields := self._fields(each, picture)) is not None])

    def _fields(self, found: Object, picture: Picture) -> ObjectFields | None:
        """The fields of an object; None where the config leaves it out."""
        label = self._aliases[found.label]
        x0, y0, x1, y1 = found.box
        left, top, right, bottom = x0 / picture.width, y0 / picture.height, x1 / picture.width, y1 / picture.height
        filters = self._settings.objects
        if self._wanted is not None and label not in self._wanted:
            return None
        if not filters.min_area <= (right - left) * (bottom - top) <= filters.max_area:
            return None
        return {
            "label": label,
            "score": round(found.score, 6),
            "box": (round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1)),
            "box_relative": (round(left, 5), round(top, 5), round(right, 5), round(bottom, 5)),
            "zones": zones_of(label, ((left + right) / 2, bottom), self._settings.zones),
        }
