"""Mean average precision of a detection on images with boxes, preprocessed like camera frames."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.float_reference import normalized, outputs
from edgemeta.model.graph import FloatModel, Model, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import ImageInput, look_up, placement
from edgemeta.model.tasks import Detection
from edgemeta.plugins.api import Session
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.tiles import in_frame
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.labelled_images import network_pixels
from edgemeta.toolchain.evaluate.average_precision import LEAST_SCORE, WATCHED_SCORE, Precision, mean_average_precision
from edgemeta.toolchain.evaluate.float_detector import FloatDetector

Find = Callable[[NDArray[np.uint8]], list[tuple[Object, ...]]]
"""The objects of each of some images, uint8 [n, H, W, C] at the size of the network, with boxes of that size."""


def evaluate_detector(model: Model, session: Session, images: BoxedImages, progress: Progress) -> Precision:
    """Run an integer detection on all images."""
    return mean_average_precision(objects_in(images, model, finder(model, session), progress), images)


def finder(model: Model, session: Session, least: float = LEAST_SCORE) -> Find:
    """Finds the objects of an integer detection that score at least so much."""
    detector = Detector(model, least_scores(model.task, least), outlines=False, by_label=True)

    def find(pixels: NDArray[np.uint8]) -> list[tuple[Object, ...]]:
        found = session.run(np.ascontiguousarray(look_up(model.preprocessing.table, pixels)))
        return objects_of(detector, found)

    return find


def evaluate_float_detector(model: FloatModel, images: BoxedImages, progress: Progress) -> Precision:
    """Run a float detection on all images in NumPy, preprocessed as the integer network's."""
    detector = FloatDetector(model, least_scores(model.task, LEAST_SCORE))

    def find(pixels: NDArray[np.uint8]) -> list[tuple[Object, ...]]:
        found = outputs(model, normalized(model, pixels))
        return [detector.objects([each[i : i + 1] for each in found]) for i in range(len(pixels))]

    return evaluate_finder(images, _FloatInput(model), find, progress)


def least_scores(task: object, least: float = WATCHED_SCORE) -> dict[str, float]:
    """The same threshold for each label of a detection."""
    assert isinstance(task, Detection)
    return dict.fromkeys(task.labels, least)


def objects_of(detector: Detector, found: Sequence[NDArray[Any]]) -> list[tuple[Object, ...]]:
    """The objects of each image, from outputs [n, H, W, C]."""
    return [detector.objects(tuple(each[i] for each in found)) for i in range(len(found[0]))]


class _FloatInput:
    """What a frame becomes for a float network."""

    def __init__(self, model: FloatModel) -> None:
        pixels = np.arange(256, dtype=np.uint8)[np.newaxis]
        self.input = TensorType(model.input_shape, signed=False)
        self.preprocessing = Preprocessing(model.crop, model.colour, pixels, model.fill, model.align)


class _Numbered:
    """The images with their numbers as classes."""

    def __init__(self, images: BoxedImages) -> None:
        self.y = np.arange(len(images))
        self._images = images

    def __len__(self) -> int:
        return len(self.y)

    def frames(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        return self._images.frames()


def evaluate_finder(images: BoxedImages, model: ImageInput, find: Find, progress: Progress) -> Precision:
    """Mean average precision of whatever finds objects in images that became the input of a model."""
    return mean_average_precision(objects_in(images, model, find, progress), images)


def objects_in(images: BoxedImages, model: ImageInput, find: Find, progress: Progress) -> list[tuple[Object, ...]]:
    """The objects of each image, with boxes in its pixels."""
    where = placement(model.preprocessing, model.input, images.x.shape[1:])
    found: list[tuple[Object, ...]] = []
    for pixels, _ in network_pixels(_Numbered(images), model):
        found += [in_frame(some, where) for some in find(pixels)]
        progress(len(found), len(images))
    return found
