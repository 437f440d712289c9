"""Both networks on test images with labels or boxes, and the temperature of the scores."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress, Report
from edgemeta.model.float_reference import normalized, outputs
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification, Detection, task_name
from edgemeta.plugins.api import Batch, Session
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.boxes.opened import open_boxed_images
from edgemeta.toolchain.data.dataset import Split
from edgemeta.toolchain.data.frames import Frames
from edgemeta.toolchain.data.labelled_images import LabelledImages, network_pixels, open_images
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.confidence import calibration_error, fit_temperature
from edgemeta.toolchain.evaluate.detection import evaluate_detector, evaluate_float_detector
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.events import Agreement
from edgemeta.toolchain.quantize.run import integer_session


@dataclass(frozen=True)
class Measured:
    """Both networks on labelled test images.

    images: their number. pixels_sha256: of their pixels as the network takes them, before its table. float_accuracy,
    accuracy: share 0..1 of correctly classified images before and after. calibration_error, plain_calibration_error: of
    the integer network's scores, with and without its temperature.
    """

    images: int
    pixels_sha256: str
    float_accuracy: float
    accuracy: float
    calibration_error: float
    plain_calibration_error: float

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        return {
            "test_images": self.images,
            "test_pixels_sha256": self.pixels_sha256,
            "test_accuracy": self.accuracy,
            "test_calibration_error": round(self.calibration_error, 6),
            "float_test_accuracy": self.float_accuracy,
        }


def measure(model: FloatModel, integer: Model, data: LabelledImages, stage: Progress | None = None) -> Measured:
    """Run both networks on all images of a data set."""
    float_classes: list[NDArray[Any]] = []

    def run_float(pixels: NDArray[np.uint8]) -> None:
        logits = outputs(model, normalized(model, pixels))[0]
        float_classes.append(logits.reshape(len(logits), -1).argmax(1))

    found = _logits(integer, data, stage, run_float)
    kind, classes = integer.output_types[0], found.classes
    error, plain = (calibration_error(scores(found.logits, kind, t), classes) for t in (temperature_of(integer), 1.0))
    exact = float((found.logits.argmax(1) == classes).mean())
    floating = float((np.concatenate(float_classes) == classes).mean())
    return Measured(len(classes), found.pixels_sha256, floating, exact, error, plain)


def with_temperature(
    integer: Model, data: LabelledImages, stage: Progress | None = None, report: Report | None = None
) -> Model:
    """The network with the temperature fitted to images that were not used for training.

    report: called with one sentence if none of them is clearly misclassified.
    """
    found = _logits(integer, data, stage)
    temperature = fit_temperature(found.logits, integer.output_types[0], found.classes, report)
    held_out = {"held_out_images": len(found.classes), "held_out_pixels_sha256": found.pixels_sha256}
    task = Classification(integer.labels, temperature)
    return replace(integer, task=task, provenance={**integer.provenance, **held_out})


def temperature_of(integer: Model) -> float:
    """The temperature of the scores; 1 for other tasks, which have none."""
    return integer.task.temperature if isinstance(integer.task, Classification) else 1.0


def integer_logits(model: Model, data: LabelledImages) -> NDArray[Any]:
    """Logits [N, labels] of all images that can be decoded, as the integers they are."""
    return _logits(model, data).logits


def labelled_images(path: Path, model: FloatModel, split: Split, report: Report) -> LabelledImages:
    """The images of a data set with the network's labels. Raises QuantizeError for a network of another task."""
    if not model.is_classification:
        raise QuantizeError(f"{path}: labelled images are for a classification, found a {task_name(model.task)}")
    return open_images(path, model.labels, report, split)


@dataclass(frozen=True)
class _Logits:
    """Of all images that can be decoded. logits: integers [N, labels]; classes [N]; pixels_sha256: as in Measured."""

    logits: NDArray[Any]
    classes: NDArray[np.integer]
    pixels_sha256: str


def _logits(
    model: Model,
    data: LabelledImages,
    stage: Progress | None = None,
    also: Callable[[NDArray[np.uint8]], None] | None = None,
) -> _Logits:
    """Run a network on all images. also: is called with the pixels of each batch."""
    rows: list[NDArray[Any]] = []
    classes: list[NDArray[np.integer]] = []
    digest, done = hashlib.sha256(), 0
    with closing(integer_session(model)) as session:
        for pixels, of_batch in network_pixels(data, model):
            rows.append(_run(session, model, pixels))
            classes.append(of_batch)
            digest.update(pixels.tobytes())
            if also is not None:
                also(pixels)
            done += len(of_batch)
            if stage is not None:
                stage(done, len(data))
    return _Logits(np.concatenate(rows), np.concatenate(classes), digest.hexdigest())


def _run(session: Session, model: Model, pixels: NDArray[np.uint8]) -> NDArray[Any]:
    batch: Batch = np.ascontiguousarray(look_up(model.preprocessing.table, pixels))
    return logits_of(session.run(batch)).copy()


@dataclass(frozen=True)
class BoxesMeasured:
    """Networks on test images with boxes.

    images: their number. sha256: of pixels and boxes.
    """

    images: int
    sha256: str
    floating: Precision
    integer: Precision

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        return {
            "test_images": self.images,
            "test_sha256": self.sha256,
            "test_map50": self.integer.at_half,
            "test_map": self.integer.mean,
            "float_test_map50": self.floating.at_half,
            "float_test_map": self.floating.mean,
        }


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Pictures without labels, for any network."""

    frames: Frames

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class Agreed:
    """Agreement of both networks on test pictures without labels. images: those that were compared."""

    images: int
    agreement: Agreement

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        same = {"test_same_label": self.agreement.same_label, "test_same_objects": self.agreement.same_objects}
        stated = {key: round(share, 4) for key, share in same.items() if share is not None}
        return {"test_images": self.images, "test_output_error": round(self.agreement.error, 6), **stated}


def measure_agreement(model: FloatModel, integer: Model, pictures: Unlabelled, progress: Progress) -> Agreed:
    """Run both networks on pictures. progress: of the float network. Raises BackendError, QuantizeError."""
    expected = Expected(model, PreparedImages(model, pictures.frames), progress)
    return Agreed(len(expected.images), expected.measure(integer, "test pictures"))


def boxed_images(path: Path, model: FloatModel) -> BoxedImages:
    """The images with boxes at `path`, with the network's labels. Raises DataError; QuantizeError for another task."""
    if not isinstance(model.task, Detection):
        raise QuantizeError(f"{path}: images with boxes are for a detection, found a {task_name(model.task)}")
    return open_boxed_images(path, model.task.labels, model.input_shape[:2])


def measure_boxes(model: FloatModel, integer: Model, images: BoxedImages, progress: Progress) -> BoxesMeasured:
    """Run both networks on all images. progress: of the integer network. Raises BackendError."""
    with closing(integer_session(integer)) as session:
        found = evaluate_detector(integer, session, images, progress)
    floating = evaluate_float_detector(model, images, silent)
    return BoxesMeasured(len(images), images.sha256(), floating, found)


def silent(_done: int, _total: int) -> None:
    """Progress that nobody watches."""
