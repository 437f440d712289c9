"""Labelled images for a network that is there: at any size, one at a time, with the network's own class numbers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.graph import Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import ImageInput
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.toolchain.data.class_folders import ClassFolders, is_class_folder, list_class_folders, some_of
from edgemeta.toolchain.data.dataset import Split, load_dataset
from edgemeta.toolchain.data.picture_files import read_pictures
from edgemeta.toolchain.errors import DataError

_BATCH, _BATCH_BYTES = 100, 1 << 20
"""Images of a batch, and their bytes: a float network's tensors have hundreds of times as many."""
_SHAPES = 64
"""Frame shapes whose preprocessors are kept."""


class LabelledImages(Protocol):
    """Images with classes y, integers [N]; a Dataset is one. `len` is their number."""

    @property
    def y(self) -> NDArray[np.integer]:
        """The class of each image, [N]."""
        ...

    def __len__(self) -> int: ...

    def frames(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The number, from 0, and the pixels, uint8 [H, W, 3] BGR, of each image that can be decoded."""
        ...


@dataclass(frozen=True, eq=False)
class LabelledPictures:
    """The pictures of a folder, read when they are iterated over. report: as of `read_pictures`."""

    files: ClassFolders
    y: NDArray[np.integer]
    report: Report

    def __len__(self) -> int:
        return len(self.y)

    def frames(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """As LabelledImages."""
        return read_pictures(self.files, self.report)


def open_images(path: Path, labels: tuple[str, ...], report: Report, split: Split = "test") -> LabelledImages:
    """The images of any data set (`load_dataset`), their classes matched by name with the labels of a network.

    A data set without names of its own is numbered as the labels are. Raises DataError if it has images of a class that
    is not among the labels; labels that it lacks are reported.
    """
    if is_class_folder(path):
        files = list_class_folders(path, report, least_classes=1)
        return LabelledPictures(files, in_labels(files.y, files.labels, labels, path, report), report)
    dataset = load_dataset(path, split, report=report, labels=labels)
    return replace(dataset, labels=labels, y=in_labels(dataset.y, dataset.labels, labels, path, report))


def in_labels(
    y: NDArray[np.integer], own: tuple[str, ...], labels: tuple[str, ...], source: Path, report: Report
) -> NDArray[np.int64]:
    """Classes y [N], of names `own`, as places [N] in `labels`. source, report: as `open_images`. Raises DataError."""
    places = first_places(labels)
    unknown = [own[number] for number in np.unique(y).tolist() if own[number] not in places]
    if unknown:
        raise DataError(f"{source}: the class {unknown[0]!r} is no label of the model, expected {some_of(labels, 20)}")
    missing = [label for label in labels if label not in own]
    if missing:
        report(f"{source}: lacks classes of the model: {some_of(missing, 20)}")
    matched: NDArray[np.int64] = np.array([places.get(label, -1) for label in own])[y]
    return matched


def first_places(labels: Sequence[str]) -> dict[str, int]:
    """Where each name is first among labels; those of one name count as one."""
    return {label: number for number, label in reversed(list(enumerate(labels)))}


def network_pixels(
    images: LabelledImages, model: ImageInput
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.integer]]]:
    """Yield batches: pixels uint8 [n, H, W, C] as the network's table takes them, and their classes [n].

    They are at the size and in the channels of the network, by its own crop or letterbox, as the service makes them.
    Raises DataError if no image can be decoded.
    """
    wanted = _BeforeTable(model)

    @lru_cache(_SHAPES)
    def preprocessor(shape: tuple[int, ...]) -> Preprocessor:
        return make_preprocessor(wanted, shape)

    most = max(1, min(_BATCH, _BATCH_BYTES // math.prod(model.input.shape)))
    pixels: list[NDArray[np.uint8]] = []
    numbers: list[int] = []
    done = 0
    for number, frame in images.frames():
        pixels.append(preprocessor(frame.shape)(frame)[0].astype(np.uint8))
        numbers.append(number)
        if len(numbers) == most:
            yield np.stack(pixels), images.y[numbers]
            done, pixels, numbers = done + len(numbers), [], []
    if numbers:
        yield np.stack(pixels), images.y[numbers]
    elif not done:
        raise DataError("none of the images can be decoded, expected at least one")


class _BeforeTable:
    """What a frame becomes before the network's table is looked up: pixels."""

    def __init__(self, model: ImageInput) -> None:
        height, width, channels = model.input.shape
        given = model.preprocessing
        table = np.arange(256, dtype=np.uint8)[np.newaxis]
        self.input = TensorType((height, width, channels), signed=False)
        self.preprocessing = Preprocessing(given.crop, channels_of(given.colour), table, given.fill, given.align)
