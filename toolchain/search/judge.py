"""What trials are judged by: the accuracy of a classification, or the mean average precision of a detection.

"Accuracy" is a share 0..1 in all of the search: of images that are classified correctly, or mean average precision (the
mean of overlaps from 0.5 to 0.95, as COCO has it).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Float32
from edgemeta.tasks.detection.objects import Detector
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.data.labelled_images import open_images
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import mean_average_precision
from edgemeta.toolchain.evaluate.detection import least_scores, objects_of
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.quantize.measure import boxed_images, measure, measure_boxes, silent, with_temperature

Outputs: TypeAlias = Sequence[NDArray[Any]]
"""The outputs [n, H, W, C] of the first n images, integers or float numbers, in the order of the model."""


@dataclass(frozen=True)
class Tested:
    """Both networks on test images, as accuracies 0..1; figures: what a model file states about it."""

    float_accuracy: float
    accuracy: float
    figures: Mapping[str, object]


class Judge(Protocol):
    """The images that judge trials, every beginning of which is a fair sample, and what counts on them.

    x: uint8 [N, H, W, 3], R, G, B, at the size of the network.
    """

    @property
    def measure(self) -> str:
        """How its accuracy is called."""
        ...

    @property
    def x(self) -> NDArray[np.uint8]:
        """The pixels, [N, H, W, 3]."""
        ...

    def float_accuracy(self, outputs: Sequence[Float32]) -> float:
        """Of the first images, from the float network's outputs [n, H, W, C]."""
        ...

    def accuracy(self, model: Model, outputs: Outputs) -> float:
        """Of the first images, from an integer network's outputs."""
        ...

    def error(self, model: Model, found: Outputs, wanted: Sequence[Float32]) -> float:
        """The relative square error of an integer network's outputs [n, H, W, C] beside the float network's."""
        ...

    def finished(self, integer: Model, report: Report) -> Model:
        """A chosen network with what only images tell: the temperature of its scores. report: of what is in doubt."""
        ...

    def tested(self, model: FloatModel, integer: Model, path: Path, report: Report) -> Tested:
        """Both networks on the test images at `path`. Raises DataError."""
        ...


class TopOne:
    """The share of images whose greatest logit is that of their class; a tie counts for the lowest class."""

    measure = "top-1"

    def __init__(self, held_out: Dataset, images: int) -> None:
        """held_out: what no training saw. images: of these, so many judge trials."""
        self.held_out = held_out
        self.judged = in_turns(held_out).take(np.arange(images))

    @property
    def x(self) -> NDArray[np.uint8]:
        """As Judge."""
        return self.judged.x

    def float_accuracy(self, outputs: Sequence[Float32]) -> float:
        """As Judge."""
        return self._share(outputs[0])

    def accuracy(self, model: Model, outputs: Outputs) -> float:
        """As Judge."""
        return self._share(outputs[0])

    def error(self, model: Model, found: Outputs, wanted: Sequence[Float32]) -> float:
        """As Judge, of the logits less their mean, which decides nothing."""
        real = found[0].reshape(len(found[0]), -1).astype(np.float64) * model.steps(model.outputs[0])
        return _relative(_centred(real), _centred(wanted[0].reshape(len(wanted[0]), -1)))

    def finished(self, integer: Model, report: Report) -> Model:
        """With the temperature fitted to the held-out images; 1 for a network that is no better than chance."""
        try:
            return with_temperature(integer, self.held_out, report=report)
        except QuantizeError as error:
            report(f"{error}: the scores keep the temperature 1")
            return integer

    def tested(self, model: FloatModel, integer: Model, path: Path, report: Report) -> Tested:
        """As Judge."""
        found = measure(model, integer, open_images(path, model.labels, report))
        return Tested(found.float_accuracy, found.accuracy, found.provenance())

    def _share(self, logits: NDArray[Any]) -> float:
        return float((logits.reshape(len(logits), -1).argmax(1) == self.judged.y[: len(logits)]).mean())


class MeanPrecision:
    """Mean average precision on images with boxes."""

    measure = "mean average precision"

    def __init__(self, model: FloatModel, judged: BoxedImages) -> None:
        self.judged = judged
        self._floats = FloatDetector(model, least_scores(model.task))

    @property
    def x(self) -> NDArray[np.uint8]:
        """As Judge."""
        return self.judged.x

    def float_accuracy(self, outputs: Sequence[Float32]) -> float:
        """As Judge."""
        count = len(outputs[0])
        found = [self._floats.objects([each[i : i + 1] for each in outputs]) for i in range(count)]
        return mean_average_precision(found, self._first(count)).mean

    def accuracy(self, model: Model, outputs: Outputs) -> float:
        """As Judge."""
        detector = Detector(model, least_scores(model.task), outlines=False, by_label=True)
        found = objects_of(detector, outputs)
        return mean_average_precision(found, self._first(len(found))).mean

    def error(self, model: Model, found: Outputs, wanted: Sequence[Float32]) -> float:
        """As Judge, the mean of all outputs' errors."""
        errors = []
        for name, kind, integers, real in zip(model.outputs, model.output_types, found, wanted, strict=True):
            errors.append(_relative(model.steps(name) * (integers.astype(np.float64) - kind.zero_point), real))
        return float(np.mean(errors))

    def finished(self, integer: Model, _report: Report) -> Model:
        """As it is: scores of objects have no temperature."""
        return integer

    def tested(self, model: FloatModel, integer: Model, path: Path, report: Report) -> Tested:
        """As Judge."""
        found = measure_boxes(model, integer, boxed_images(path, model), silent)
        return Tested(found.floating.mean, found.integer.mean, found.provenance())

    def _first(self, count: int) -> BoxedImages:
        return self.judged.take(np.arange(count))


def in_turns(data: Dataset) -> Dataset:
    """The images in an order whose every beginning has about equally many of each class."""
    turn = np.empty(len(data), np.int64)
    for label in np.unique(data.y):
        members = np.flatnonzero(data.y == label)
        turn[members] = np.arange(len(members))
    return data.take(np.lexsort((data.y, turn)))


def _centred(logits: NDArray[Any]) -> NDArray[np.float64]:
    real = logits.astype(np.float64)
    centred: NDArray[np.float64] = real - real.mean(1, keepdims=True)
    return centred


def _relative(found: NDArray[np.float64], wanted: NDArray[Any]) -> float:
    return float(np.square(found - wanted).mean() / max(np.square(wanted).mean(), 1e-30))
