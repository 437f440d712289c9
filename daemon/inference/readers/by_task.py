"""The reader for a model's task: it joins the results of a frame's tiles and names them as the config says."""

from dataclasses import replace
from typing import assert_never

import numpy as np

from edgemeta.daemon.inference.readers.detection import detection_reader
from edgemeta.daemon.inference.readers.labels import LabelMap
from edgemeta.daemon.inference.readers.reading import Picture, Reader, Reading, tiles_of
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.records import Fields
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection, Embedding, MultiLabel
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.classification import logits_of, unknown
from edgemeta.tasks.results import reader
from edgemeta.tasks.tiles import best_labels


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
        known = ~unknown(rule, outputs)
        if not known.any():
            return Reading(unknown=True)
        rows = logits_of(outputs)[known]
        every = [labels.scores(row) for row in rows]
        number = 0 if len(every) == 1 else int(np.argmax([shares.max() for shares in every]))
        shares = every[number]
        best: list[Fields] = [
            {"label": names[place], "score": round(float(shares[place]), 6)}
            for place in labels.rank(rows[number], shares, settings.top)
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
