"""Accuracy of a classification on labelled images: as a whole, of its scores, and class by class."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.float_reference import normalized, outputs
from edgemeta.model.graph import FloatModel, Model, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification
from edgemeta.plugins.api import Session
from edgemeta.tasks.classification import logits_of, scores, unknown
from edgemeta.toolchain.data.labelled_images import LabelledImages, first_places, network_pixels
from edgemeta.toolchain.evaluate.confidence import calibration_error


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
class Rejections:
    """What a model's rule of rejection does to labelled images, as shares 0..1.

    rejected: of all images. lost: of all images, those whose greatest logit is that of their label and that are
    rejected. labelled_top1: of the images that keep a label, those with the right one; 0 if none does.
    """

    rejected: float
    lost: float
    labelled_top1: float


@dataclass(frozen=True)
class Evaluation:
    """A network on labelled images.

    images: number of those that could be decoded. top1: share 0..1 whose greatest logit is that of their label, whether
    rejected or not. calibration_error: of the scores of the images that keep a label, 0..1; None for a float network,
    which has none, and if none does. recalls: of each label that has images, the worst first. rejections: None for a
    network without a rule.
    """

    images: int
    top1: float
    calibration_error: float | None
    recalls: tuple[Recall, ...]
    rejections: Rejections | None = None


def evaluate(model: Model, session: Session, images: LabelledImages, progress: Progress) -> Evaluation:
    """Run an integer classification on all images, preprocessed like camera frames. Raises DataError."""
    task, table = model.task, model.preprocessing.table
    assert isinstance(task, Classification)
    rejected: list[NDArray[np.bool_]] = []

    def run(pixels: NDArray[np.uint8]) -> NDArray[Any]:
        found = session.run(np.ascontiguousarray(look_up(table, pixels)))
        rejected.append(unknown(task, found))
        return logits_of(found).copy()

    logits, classes = _run(images, model, run, progress)
    labelled = ~np.concatenate(rejected)
    shares = scores(logits, model.output_types[0], task.temperature)[labelled]
    error = calibration_error(shares, classes[labelled]) if labelled.any() else None
    result = _evaluation(logits, classes, model.labels, error)
    return result if task.rejection is None else replace(result, rejections=_rejections(logits, classes, labelled))


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


def _rejections(logits: NDArray[Any], classes: NDArray[np.integer], labelled: NDArray[np.bool_]) -> Rejections:
    right = logits.argmax(axis=1) == classes
    return Rejections(
        rejected=float((~labelled).mean()),
        lost=float((right & ~labelled).mean()),
        labelled_top1=float(right[labelled].mean()) if labelled.any() else 0.0,
    )


def _evaluation(
    logits: NDArray[Any], classes: NDArray[np.integer], labels: tuple[str, ...], error: float | None
) -> Evaluation:
    places = first_places(labels)
    same = np.array([places[label] for label in labels])
    classes = same[classes]
    right = same[logits.argmax(axis=1)] == classes
    counts = np.bincount(classes, minlength=len(labels))
    hits = np.bincount(classes[right], minlength=len(labels))
    found = np.flatnonzero(counts).tolist()
    recalls = [Recall(labels[number], int(counts[number]), int(hits[number])) for number in found]
    return Evaluation(len(classes), float(right.mean()), error, tuple(sorted(recalls, key=lambda each: each.share)))
