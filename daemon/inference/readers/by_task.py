"""The reader for a model's task."""

from typing import assert_never

from edgemeta.daemon.inference.readers.classification import ClassificationReader
from edgemeta.daemon.inference.readers.detection import DetectionReader
from edgemeta.daemon.inference.readers.embedding import EmbeddingReader
from edgemeta.daemon.inference.readers.multi_label import MultiLabelReader
from edgemeta.daemon.inference.readers.reading import Reader
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection, Embedding, MultiLabel


def reader_of(model: Model, settings: CameraSettings) -> Reader:
    """The reader of a model's outputs. Raises ValueError for settings that the model's task does not have."""
    match model.task:
        case Classification():
            return ClassificationReader(model, settings)
        case MultiLabel():
            return MultiLabelReader(model, settings)
        case Detection():
            return DetectionReader(model, settings)
        case Embedding():
            return EmbeddingReader(model, settings)
        case _:
            assert_never(model.task)
