"""What a model says about an image, whatever its task: shared by the service, the commands and the workshop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection, Embedding, MultiLabel
from edgemeta.tasks.classification import top_k, unknown
from edgemeta.tasks.detection.level import Outputs
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.embedding import EmbeddingReader
from edgemeta.tasks.multi_label import MultiLabelReader


@dataclass(frozen=True)
class Result:
    """The result of one image; what the task does not give is empty.

    labels: with scores, the greatest first: the best ones of a classification, or the present ones of several. unknown:
    a classification's rule of rejection gives the image no label. objects:
    best first, boxes in pixels of the network's input. embedding: a vector of length 1.
    """

    labels: tuple[tuple[str, float], ...] = ()
    objects: tuple[Object, ...] = ()
    embedding: tuple[float, ...] = ()
    unknown: bool = False


Reader: TypeAlias = Callable[[Outputs], Result]
"""Gives the result of one image from its outputs, each [H, W, C], in the order of the model."""


def reader(model: Model, top: int = 5, thresholds: Mapping[str, float] | None = None) -> Reader:
    """The reader of a model's outputs.

    top: how many labels of a classification. thresholds: score thresholds of a detection's labels that have another one
    than the model's. Raises ValueError for an unknown label or a wrong threshold.
    """
    match model.task:
        case Classification() as task:
            return lambda outputs: _classified(model, task, outputs, top)
        case MultiLabel():
            several = MultiLabelReader(model)
            return lambda outputs: Result(labels=several.present(outputs[0].reshape(-1)))
        case Detection():
            detector = Detector(model, thresholds)
            return lambda outputs: Result(objects=detector.objects(outputs))
        case Embedding():
            vectors = EmbeddingReader(model)
            return lambda outputs: Result(embedding=tuple(vectors.vector(outputs[0].reshape(-1)).tolist()))
        case _:
            assert_never(model.task)


def _classified(model: Model, task: Classification, outputs: Outputs, top: int) -> Result:
    if unknown(task, [output[np.newaxis] for output in outputs])[0]:
        return Result(unknown=True)
    return Result(labels=top_k(model, outputs[0].reshape(-1), top))
