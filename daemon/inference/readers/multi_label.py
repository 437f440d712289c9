"""Readings of multi-label classifications: the labels that are present."""

from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.multi_label import MultiLabelReader as Scores
from edgemeta.tasks.tiles import best_labels


class MultiLabelReader:
    """As `Reader`. Labels with the same name count as one, with the greatest score of any of them in any tile."""

    def __init__(self, model: Model, settings: CameraSettings) -> None:
        self._scores = Scores(model)
        self._aliases = settings.labels

    def read(self, outputs: Outputs, picture: Picture) -> Reading:
        """As `Reader.read`."""
        rows = outputs[0].reshape(len(outputs[0]), -1)
        present = [
            [(self._aliases.get(label, label), score) for label, score in self._scores.present(row)] for row in rows
        ]
        return Reading([{"label": label, "score": round(score, 6)} for label, score in best_labels(present)])
