"""What labelled images say about a classification: its accuracy, and the temperature of its scores."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification
from edgemeta.plugins.api import Batch
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.confidence import calibration_error, fit_temperature
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.forward import accuracy, in_order
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.run import integer_session

_BATCH = 100


@dataclass(frozen=True)
class Measured:
    """Both networks on labelled test images.

    images: their number. float_accuracy, accuracy: share 0..1 of correctly classified images before and after.
    calibration_error, plain_calibration_error: of the integer network's scores, with and without its temperature.
    """

    images: int
    float_accuracy: float
    accuracy: float
    calibration_error: float
    plain_calibration_error: float

    def provenance(self, data: Dataset) -> Mapping[str, object]:
        """The figures as the model file states them."""
        return {
            "test_images": self.images,
            "test_pixels_sha256": data.sha256(),
            "test_accuracy": self.accuracy,
            "test_calibration_error": round(self.calibration_error, 6),
            "float_test_accuracy": self.float_accuracy,
        }


def measure(model: FloatModel, integer: Model, data: Dataset) -> Measured:
    """Run both networks on all images of a data set."""
    logits, kind = integer_logits(integer, data), integer.output_types[0]
    error, plain = (calibration_error(scores(logits, kind, t), data.y) for t in (temperature_of(integer), 1.0))
    exact = float((logits.argmax(1) == data.y).mean())
    return Measured(len(data), accuracy(model, data.x, data.y), exact, error, plain)


def with_temperature(integer: Model, data: Dataset) -> Model:
    """The network with the temperature fitted to images that were not used for training."""
    temperature = fit_temperature(integer_logits(integer, data), integer.output_types[0], data.y)
    held_out = {"held_out_images": len(data), "held_out_pixels_sha256": data.sha256()}
    task = Classification(integer.labels, temperature)
    return replace(integer, task=task, provenance={**integer.provenance, **held_out})


def temperature_of(integer: Model) -> float:
    """The temperature of the scores; 1 for other tasks, which have none."""
    return integer.task.temperature if isinstance(integer.task, Classification) else 1.0


def integer_logits(model: Model, data: Dataset) -> NDArray[Any]:
    """Logits [N, labels] of all images, as the integers they are."""
    rows = []
    with closing(integer_session(model)) as session:
        for start in range(0, len(data), _BATCH):
            ordered = in_order(data.x[start : start + _BATCH], model.preprocessing.colour)
            batch: Batch = np.ascontiguousarray(look_up(model.preprocessing.table, ordered))
            rows.append(logits_of(session.run(batch)).copy())
    return np.concatenate(rows)


def fitting(data: Dataset, model: FloatModel, path: Path) -> Dataset:
    """The data set, if its images and classes are those of the network. Raises QuantizeError."""
    if data.x.shape[1:] != model.input_shape:
        raise QuantizeError(
            f"{path}: images are {data.x.shape[1:]}, expected {model.input_shape}, the float model's input shape"
        )
    if len(data.labels) != len(model.labels):
        raise QuantizeError(
            f"{path}: images have {len(data.labels)} classes, expected {len(model.labels)} as in the float model"
        )
    return data
