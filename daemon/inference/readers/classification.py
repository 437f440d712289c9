"""Readings of classifications: the most probable labels, or none where the model's rule of rejection says so."""

from dataclasses import replace

import numpy as np

from edgemeta.daemon.inference.readers.labels import LabelMap
from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.frame_fields import LabelFields
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.classification import logits_of, unknown


class ClassificationReader:
    """As `Reader`. Of several tiles the one counts in which the best label scores highest, the first at a tie.

    Tiles that the model's rule rejects do not count; a frame of which no tile counts is unknown.
    """

    def __init__(self, model: Model, settings: CameraSettings) -> None:
        self._labels = LabelMap(model, settings.labels)
        self._top = settings.top
        assert isinstance(model.task, Classification)
        self._task = model.task if settings.reject_unknown else replace(model.task, rejection=None)

    def read(self, outputs: Outputs, picture: Picture) -> Reading:
        """As `Reader.read`."""
        known = ~unknown(self._task, outputs)
        if not known.any():
            return Reading(unknown=True)
        rows = logits_of(outputs)[known]
        every = [self._labels.scores(row) for row in rows]
        number = 0 if len(every) == 1 else int(np.argmax([shares.max() for shares in every]))
        shares = every[number]
        names = self._labels.names
        labels: list[LabelFields] = [
            {"label": names[place], "score": round(float(shares[place]), 6)}
            for place in self._labels.rank(rows[number], shares, self._top)
        ]

        def score_of(label: str) -> float | None:
            return round(float(shares[names.index(label)]), 6) if label in names else None

        return Reading(labels, score_of=score_of)
