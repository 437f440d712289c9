"""The reader for a model's task: it joins the results of a frame's tiles and names them as the config says."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from edgemeta.daemon.config.objects import ZoneConfig
from edgemeta.daemon.inference.readers.labels import LabelMap, label_names
from edgemeta.daemon.inference.readers.reading import Picture, Reader, Reading, tiles_of
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.records import MAX_SIDE, Fields
from edgemeta.model.graph import Model
from edgemeta.model.tasks import (
    Classification,
    Detection,
    Embedding,
    Keypoints,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Raw,
    Segmentation,
)
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.classification import known, logits_of
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.keypoints import Keypoint, points_in_frame
from edgemeta.tasks.results import reader
from edgemeta.tasks.segmentation import NO_LABEL, in_picture, runs
from edgemeta.tasks.tiles import best_labels, in_frame, merge


def reader_of(model: Model, settings: CameraSettings) -> Reader:
    """The reader of a model's outputs. Raises ValueError for settings that the model's task does not have."""
    match model.task:
        case Classification() as task:
            return _classification_reader(model, task, settings)
        case MultiLabel():
            return _multi_label_reader(model, settings)
        case Detection() as task:
            return detection_reader(model, task, settings)
        case Embedding():
            return _embedding_reader(model)
        case Segmentation() as task:
            return _segmentation_reader(model, task, settings)
        case Keypoints():
            return _keypoint_reader(model)
        case Raw():
            return _raw_reader(model)
        case _:
            assert_never(model.task)


def _classification_reader(model: Model, task: Classification, settings: CameraSettings) -> Reader:
    """Of several tiles the one counts in which the best label scores highest, the first at a tie.

    Tiles that the model's rule rejects do not count; a frame of which no tile counts is unknown.
    """
    labels = LabelMap(model, settings.labels)
    names = labels.names
    rule = task if settings.reject_unknown else replace(task, rejection=None)

    def read(outputs: Outputs, _picture: Picture) -> Reading:
        certain = known(rule, outputs)
        if not certain:
            return Reading(unknown=True)
        rows = logits_of(outputs)
        every = [labels.scores(rows[i]) for i in certain]
        number = 0 if len(every) == 1 else int(np.argmax([shares.max() for shares in every]))
        shares = every[number]
        best: list[Fields] = [
            {"label": names[place], "score": round(float(shares[place]), 6)}
            for place in labels.rank(rows[certain[number]], shares, settings.top)
        ]

        def score_of(label: str) -> float | None:
            return round(float(shares[names.index(label)]), 6) if label in names else None

        return Reading(best, score_of=score_of)

    return read


def _multi_label_reader(model: Model, settings: CameraSettings) -> Reader:
    """Labels with the same name count as one, with the greatest score of any of them in any tile."""
    decode, names = reader(model), settings.labels

    def read(outputs: Outputs, _picture: Picture) -> Reading:
        tiles = [[(names.get(label, label), score) for label, score in decode(one).labels] for one in tiles_of(outputs)]
        return Reading([{"label": label, "score": round(score, 6)} for label, score in best_labels(tiles)])

    return read


def _embedding_reader(model: Model) -> Reader:
    """Of several tiles the vector is the mean of theirs, divided by its length."""
    decode = reader(model)

    def read(outputs: Outputs, _picture: Picture) -> Reading:
        mean = np.mean([decode(one).embedding for one in tiles_of(outputs)], axis=0)
        length = float(np.linalg.norm(mean))
        return Reading(embedding=np.round(mean / length if length else mean, 6).tolist())

    return read


def _segmentation_reader(model: Model, task: Segmentation, settings: CameraSettings) -> Reader:
    """Labels with the same name count as one. There is only one tile: `object_checks` refuses several."""
    decode, image = reader(model), model.input.shape[:2]
    names = label_names(model, settings.labels)
    places = np.array([names.index(settings.labels.get(each, each)) for each in task.labels] + [NO_LABEL], np.int16)

    def read(outputs: Outputs, picture: Picture) -> Reading:
        cells = decode(tiles_of(outputs)[0]).cells
        assert cells is not None
        segments = in_picture(places[cells], image, picture.placements[0])
        left, top, right, bottom = segments.box
        coarse = segments.coarse(MAX_SIDE)
        return Reading(
            [{"label": name, "score": round(share, 6)} for name, share in segments.ranked(names, task.least_share)],
            segments={
                "labels": names,
                "rows": coarse.shape[0],
                "columns": coarse.shape[1],
                "box_relative": (
                    round(left / picture.width, 5),
                    round(top / picture.height, 5),
                    round(right / picture.width, 5),
                    round(bottom / picture.height, 5),
                ),
                "runs": runs(coarse),
            },
        )

    return read


def _keypoint_reader(model: Model) -> Reader:
    """The points in the only tile: `object_checks` refuses several."""
    decode = reader(model)

    def read(outputs: Outputs, picture: Picture) -> Reading:
        points = points_in_frame(decode(tiles_of(outputs)[0]).points, picture.placements[0])
        return Reading(keypoints=_point_fields(points, picture))

    return read


def _point_fields(points: Iterable[Keypoint], picture: Picture) -> list[Fields]:
    return [
        {
            "name": each.name,
            "point": (round(each.x, 1), round(each.y, 1)),
            "point_relative": (round(each.x / picture.width, 5), round(each.y / picture.height, 5)),
            "score": None if each.score is None else round(each.score, 6),
        }
        for each in points
    ]


def _raw_reader(model: Model) -> Reader:
    """The numbers of the only tile: `object_checks` refuses several."""
    decode = reader(model)

    def read(outputs: Outputs, _picture: Picture) -> Reading:
        numbers = decode(tiles_of(outputs)[0]).numbers
        return Reading(outputs={each.name: {"shape": each.shape, "values": each.values} for each in numbers})

    return read


def detection_reader(model: Model, task: Detection, settings: CameraSettings) -> Reader:
    """Reads the objects of a frame; those of several tiles are merged.

    Where objects are followed, fainter ones are read, too. They come after the others, which are the same.
    """
    names = {label: settings.labels.get(label, label) for label in task.labels}
    tracking, label_overlap = settings.tracking, settings.objects.label_overlap
    if label_overlap is not None:
        task = replace(task, label_overlap=label_overlap if label_overlap < 1 else None)
    least = {label: settings.objects.scores.get(name, task.score_threshold) for label, name in names.items()}
    read_from = {label: min(score, tracking.low_score) if tracking.enabled else score for label, score in least.items()}
    decode = reader(replace(model, task=task), thresholds=read_from)

    limits = task.overlap_threshold, task.max_objects, task.label_overlap

    def read(outputs: Outputs, picture: Picture) -> Reading:
        tiles = [
            in_frame(decode(one).objects, placement, tile)
            for one, tile, placement in zip(tiles_of(outputs), picture.tiles, picture.placements, strict=True)
        ]
        objects = tiles[0] if len(tiles) == 1 else merge(tiles, *limits)
        found: list[Fields] = []
        faint: list[Fields] = []
        for each in objects:
            fields = _fields(names[each.label], each, task, picture, settings)
            if fields is not None:
                (found if each.score >= least[each.label] else faint).append(fields)
        return Reading(objects=found, faint=faint, size=(picture.width, picture.height))

    return read


def _fields(label: str, found: Object, task: Detection, picture: Picture, settings: CameraSettings) -> Fields | None:
    """The fields of an object; None where the config leaves it out."""
    x0, y0, x1, y1 = found.box
    left, top, right, bottom = x0 / picture.width, y0 / picture.height, x1 / picture.width, y1 / picture.height
    filters = settings.objects
    if filters.labels is not None and label not in filters.labels:
        return None
    if not filters.min_area <= (right - left) * (bottom - top) <= filters.max_area:
        return None
    return {
        "id": None,
        "label": label,
        "name": None,
        "score": round(found.score, 6),
        "box": (round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1)),
        "box_relative": (round(left, 5), round(top, 5), round(right, 5), round(bottom, 5)),
        "zones": zones_of(label, ((left + right) / 2, bottom), settings.zones),
        "keypoints": _point_fields(found.keypoints, picture) if isinstance(task.extras, ObjectPoints) else None,
        "outline_relative": (
            [(round(x / picture.width, 5), round(y / picture.height, 5)) for x, y in found.outline]
            if isinstance(task.extras, ObjectMasks)
            else None
        ),
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
