"""Accuracy of a classification on labelled images: as a whole, of its scores, and class by class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification
from edgemeta.plugins.api import Session
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.confidence import calibration_error
from edgemeta.toolchain.data.labelled_images import LabelledImages, network_pixels
from edgemeta.toolchain.float_model.forward import normalized, outputs
from edgemeta.toolchain.float_model.graph import FloatModel

Progress = Callable[[int, int], None]
"""Called with the number of images done and of all."""


@dataclass(frozen=True)
class Recall:
    """How many images of a label there are, and how many of them get it."""

    label: str
    images: int
    right: int

    @property
    def share(self) -> float:
        """Recall 0..1."""
        return self.right / self.images


@dataclass(frozen=True)
class Evaluation:
    """A network on labelled images.

    images: number of those that could be decoded. top1: share 0..1 whose greatest logit is that of their label.
    calibration_error: of the scores, 0..1; None for a float network, which has none. recalls: of each label that has
    images, the worst first.
    """

    images: int
    top1: float
    calibration_error: float | None
    recalls: tuple[Recall, ...]


def evaluate(model: Model, session: Session, images: LabelledImages, progress: Progress) -> Evaluation:
    """Run an integer classification on all images, preprocessed like camera frames. Raises DataError."""
    assert isinstance(model.task, Classification)
    table = model.preprocessing.table

    def run(pixels: NDArray[np.uint8]) -> NDArray[Any]:
        return logits_of(session.run(np.ascontiguousarray(look_up(table, pixels)))).copy()

    logits, classes = _run(images, model, run, progress)
    error = calibration_error(scores(logits, model.output_types[0], model.task.temperature), classes)
    return _evaluation(logits, classes, model.labels, error)


def evaluate_float(model: FloatModel, images: LabelledImages, progress: Progress) -> Evaluation:
    """Run a float classification on all images in NumPy, preprocessed as the integer network's. Raises DataError."""

    def run(pixels: NDArray[np.uint8]) -> NDArray[Any]:
        logits = outputs(model, normalized(model, pixels))[0]
        return logits.reshape(len(logits), -1)

    logits, classes = _run(images, _FloatInput(model), run, progress)
    return _evaluation(logits, classes, model.labels, None)


class _FloatInput:
    """What a frame becomes for a float network."""

    def __init__(self, model: FloatModel) -> None:
        pixels = np.arange(256, dtype=np.uint8)[np.newaxis]
        self.input = TensorType(model.input_shape, signed=False)
        self.preprocessing = Preprocessing(model.crop, model.colour, pixels, model.fill, model.align)


def _run(
    images: LabelledImages,
    model: Model | _FloatInput,
    run: Callable[[NDArray[np.uint8]], NDArray[Any]],
    progress: Progress,
) -> tuple[NDArray[Any], NDArray[np.integer]]:
    """Logits [N, labels] and classes [N]."""
    rows: list[NDArray[Any]] = []
    classes: list[NDArray[np.integer]] = []
    done = 0
    for pixels, of_batch in network_pixels(images, model):
        rows.append(run(pixels))
        classes.append(of_batch)
        done += len(of_batch)
        progress(done, len(images))
    return np.concatenate(rows), np.concatenate(classes)


def _evaluation(
    logits: NDArray[Any], classes: NDArray[np.integer], labels: tuple[str, ...], error: float | None
) -> Evaluation:
    right = logits.argmax(axis=1) == classes
    counts = np.bincount(classes, minlength=len(labels))
    hits = np.bincount(classes[right], minlength=len(labels))
    found = np.flatnonzero(counts).tolist()
    recalls = [Recall(labels[number], int(counts[number]), int(hits[number])) for number in found]
    return Evaluation(len(classes), float(right.mean()), error, tuple(sorted(recalls, key=lambda each: each.share)))
