"""Readings of classifications: the most probable labels."""

import numpy as np

from edgemeta.daemon.inference.readers.labels import LabelMap
from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.frame_fields import LabelFields
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.classification import logits_of


class ClassificationReader:
    """As `Reader`. Of several tiles the one counts in which the best label scores highest, the first at a tie."""

    def __init__(self, model: Model, settings: CameraSettings) -> None:
        self._labels = LabelMap(model, settings.labels)
        self._top = settings.top

    def read(self, outputs: Outputs, picture: Picture) -> Reading:
        """As `Reader.read`."""
        rows = logits_of(outputs)
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
