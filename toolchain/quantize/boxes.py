"""What test images with boxes say about a detection: its mean average precision before and after."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection, task_name
from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.average_precision import Precision
from edgemeta.toolchain.data.boxed_images import BoxedImages, load_boxed_images
from edgemeta.toolchain.detection_evaluation import (
    Progress,
    evaluate_detector,
    evaluate_finder,
    evaluate_float_detector,
    least_scores,
)
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_detector import FloatDetector
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.real_form import RealForm
from edgemeta.toolchain.quantize.run import integer_session


@dataclass(frozen=True)
class BoxesMeasured:
    """Networks on test images with boxes.

    images: their number. sha256: of pixels and boxes. real: of scheme binary's real-valued form, None for others.
    """

    images: int
    sha256: str
    floating: Precision
    integer: Precision
    real: Precision | None

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        figures = {
            "test_images": self.images,
            "test_sha256": self.sha256,
            "test_map50": self.integer.at_half,
            "test_map": self.integer.mean,
            "float_test_map50": self.floating.at_half,
            "float_test_map": self.floating.mean,
        }
        return figures if self.real is None else {**figures, "real_form_test_map": self.real.mean}


def boxed_images(path: Path, model: FloatModel) -> BoxedImages:
    """The images with boxes at `path`, with the network's labels. Raises DataError; QuantizeError for another task."""
    if not isinstance(model.task, Detection):
        raise QuantizeError(f"{path}: images with boxes are for a detection, found a {task_name(model.task)}")
    return load_boxed_images(path, labels=model.task.labels)


def measure_boxes(
    model: FloatModel, integer: Model, real: RealForm | None, images: BoxedImages, stage: Progress
) -> BoxesMeasured:
    """Run the networks on all images. stage: told of the integer network's progress. Raises BackendError."""
    with closing(integer_session(integer)) as session:
        found = evaluate_detector(integer, session, images, stage)
    floating = evaluate_float_detector(model, images, _silent)
    by_real = None if real is None else _real_precision(model, integer, real, images)
    return BoxesMeasured(len(images), images.sha256(), floating, found, by_real)


def _real_precision(model: FloatModel, integer: Model, real: RealForm, images: BoxedImages) -> Precision:
    detector = FloatDetector(model, least_scores(model.task))

    def find(pixels: NDArray[np.uint8]) -> list[tuple[Object, ...]]:
        outputs = real.outputs(pixels)
        return [detector.objects([each[i : i + 1] for each in outputs]) for i in range(len(pixels))]

    return evaluate_finder(images, integer, find, _silent)


def _silent(_done: int, _total: int) -> None:
    """Progress that nobody watches."""
