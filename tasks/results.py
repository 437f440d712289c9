"""What a model says about an image, whatever its task: shared by the service, the commands and the workshop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection, Embedding, Keypoints, MultiLabel, Raw, Segmentation
from edgemeta.tasks.classification import top_k, unknown
from edgemeta.tasks.detection.level import Outputs
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.keypoints import Keypoint, KeypointReader
from edgemeta.tasks.numbers import Float64, Output
from edgemeta.tasks.segmentation import Cells, SegmentationReader


class MultiLabelReader:
    """Scores of a multi-label classification; built once for a model."""

    def __init__(self, model: Model) -> None:
        assert isinstance(model.task, MultiLabel)
        self.labels, self.threshold = model.task.labels, model.task.score_threshold
        self._output = Output(model, model.outputs[0], len(self.labels))
        self._columns = np.arange(len(self.labels))

    def scores(self, logits: NDArray[Any]) -> Float64:
        """Score [labels] of every label: the sigmoid of its logit, from the integers [labels] of one image."""
        return self._output.sigmoids(np.ascontiguousarray(logits), np.zeros_like(self._columns), self._columns)

    def present(self, logits: NDArray[Any]) -> tuple[tuple[str, float], ...]:
        """Labels that score at least the threshold and their scores, greatest first, then by index. logits [labels]."""
        scores = self.scores(logits)
        order = np.argsort(-scores, kind="stable")
        return tuple((self.labels[i], float(scores[i])) for i in order if scores[i] >= self.threshold)


class EmbeddingReader:
    """Vectors of length 1; built once for a model."""

    def __init__(self, model: Model) -> None:
        self._output = Output(model, model.outputs[0], model.output_types[0].shape[2])

    def vector(self, integers: NDArray[Any]) -> Float64:
        """The numbers [D] that the integers [D] of one image represent, divided by their length; zeros stay zeros.

        The cosine similarity of two vectors is their dot product.
        """
        values = self._output.values(integers, np.zeros(1, np.int64)).ravel()
        greatest = np.abs(values).max()
        if greatest == 0:
            return values
        values = values / greatest  # so that no square overflows
        vector: Float64 = values / np.sqrt(np.square(values).sum())
        return vector


class Numbers(NamedTuple):
    """The numbers of one raw output (H, W, C), in the order of rows, columns and channels."""

    name: str
    shape: tuple[int, int, int]
    values: tuple[float, ...]


class RawReader:
    """The numbers of raw outputs; built once for a model."""

    def __init__(self, model: Model) -> None:
        assert isinstance(model.task, Raw)
        self._outputs = [
            (name, kind.shape, Output(model, output, kind.shape[2]))
            for name, output, kind in zip(model.task.names, model.outputs, model.output_types, strict=True)
        ]

    def numbers(self, outputs: Outputs) -> tuple[Numbers, ...]:
        """What the integers [H, W, C] of each output represent, to six significant digits."""
        found = []
        for (name, shape, output), integers in zip(self._outputs, outputs, strict=True):
            rows = output.rows(np.ascontiguousarray(integers))
            real = output.values(rows, np.zeros(len(rows), np.int64)).ravel().tolist()
            found.append(Numbers(name, shape, tuple(float(f"{number:.6g}") for number in real)))
        return tuple(found)


@dataclass(frozen=True)
class Result:
    """The result of one image; what the task does not give is empty.

    labels: with scores, the greatest first: the best ones of a classification, or the present ones of several. unknown:
    a classification's rule of rejection gives the image no label. objects:
    best first, boxes in pixels of the network's input. embedding: a vector of length 1. numbers: of raw outputs.
    cells: labels of a segmentation's cells over the input. points: in pixels of the network's input.
    """

    labels: tuple[tuple[str, float], ...] = ()
    objects: tuple[Object, ...] = ()
    embedding: tuple[float, ...] = ()
    unknown: bool = False
    numbers: tuple[Numbers, ...] = ()
    points: tuple[Keypoint, ...] = ()
    cells: Cells | None = field(default=None, compare=False)


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
        case Segmentation():
            segmented = SegmentationReader(model)
            return lambda outputs: Result(cells=segmented.cells(outputs[0]))
        case Keypoints():
            located = KeypointReader(model)
            return lambda outputs: Result(points=located.points(outputs[0]))
        case Raw():
            raw = RawReader(model)
            return lambda outputs: Result(numbers=raw.numbers(outputs))
        case _:
            assert_never(model.task)


def _classified(model: Model, task: Classification, outputs: Outputs, top: int) -> Result:
    if unknown(task, [output[np.newaxis] for output in outputs])[0]:
        return Result(unknown=True)
    return Result(labels=top_k(model, outputs[0].reshape(-1), top))
