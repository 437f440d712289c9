"""What test images with boxes say about a detection: its mean average precision before and after."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection, task_name
from edgemeta.toolchain.data.boxed_images import BoxedImages, load_boxed_images
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.detection import (
    Progress,
    evaluate_detector,
    evaluate_float_detector,
)
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.run import integer_session


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


def boxed_images(path: Path, model: FloatModel) -> BoxedImages:
    """The images with boxes at `path`, with the network's labels. Raises DataError; QuantizeError for another task."""
    if not isinstance(model.task, Detection):
        raise QuantizeError(f"{path}: images with boxes are for a detection, found a {task_name(model.task)}")
    return load_boxed_images(path, labels=model.task.labels)


def measure_boxes(model: FloatModel, integer: Model, images: BoxedImages, progress: Progress) -> BoxesMeasured:
    """Run both networks on all images. progress: of the integer network. Raises BackendError."""
    with closing(integer_session(integer)) as session:
        found = evaluate_detector(integer, session, images, progress)
    floating = evaluate_float_detector(model, images, silent)
    return BoxesMeasured(len(images), images.sha256(), floating, found)


def silent(_done: int, _total: int) -> None:
    """Progress that nobody watches."""
