"""Readings of embeddings: a vector."""

import numpy as np

from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Outputs
from edgemeta.tasks.embedding import EmbeddingReader as Vectors


class EmbeddingReader:
    """As `Reader`. Of several tiles the vector is the mean of theirs, divided by its length."""

    def __init__(self, model: Model, _settings: CameraSettings) -> None:
        self._vectors = Vectors(model)

    def read(self, outputs: Outputs, picture: Picture) -> Reading:
        """As `Reader.read`."""
        rows = outputs[0].reshape(len(outputs[0]), -1)
        mean = np.mean([self._vectors.vector(row) for row in rows], axis=0)
        length = float(np.linalg.norm(mean))
        return Reading(embedding=np.round(mean / length if length else mean, 6).tolist())
