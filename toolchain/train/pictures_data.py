"""The data of a training on own pictures: a part to train on, a part to choose the best epoch by, and test images."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgemeta.model.callbacks import Report
from edgemeta.toolchain.data.apart import check_apart
from edgemeta.toolchain.data.class_folders import ClassFolders, is_class_folder
from edgemeta.toolchain.data.copies import picture_digests
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.data.labelled_images import in_labels
from edgemeta.toolchain.data.picture_files import read_squares
from edgemeta.toolchain.data.split import choose
from edgemeta.toolchain.errors import DataError

_log = logging.getLogger(__name__)

SIZE = 96
"""Side of the network's input for pictures of a folder, where nothing else is wanted, pixels."""

_PART_NAMES = ("train", "training", "test", "validation", "data", "images")
"""Names of folders that say nothing about what the pictures show."""


@dataclass(frozen=True, eq=False)
class PicturesData:
    """Training pictures, `margin` times as large as the network's input, and validation pictures of the input's size.

    name: what the data are called, for the model's name.
    """

    name: str
    training: Dataset
    validation: Dataset

    @property
    def size(self) -> int:
        """Side of the network's input in pixels."""
        return int(self.validation.x.shape[1])


def load_pictures(
    path: Path, size: int | None, margin: float, share: float, seed: int, report: Report = _log.warning
) -> PicturesData:
    """Read a data set and split it by a fixed seed; `share` of each class validates.

    size: side of the network's input in pixels; None: SIZE for pictures of a folder, else that of the images. Pictures
    of a folder are read at margin * size for the training; images of a file must have the size. report: called for what
    is left out. Raises DataError, also for a class of a single picture.
    """
    from_folder = is_class_folder(path)
    if from_folder:
        size = size or SIZE
    large = load_dataset(path, "train", round(margin * size) if from_folder and size else size, report)
    if large.x.shape[1] != large.x.shape[2]:
        raise DataError(f"{path}: images are {large.x.shape[2]}x{large.x.shape[1]} pixels, expected squares")
    counts = np.bincount(large.y, minlength=len(large.labels))
    if counts.min() < 2:
        label = large.labels[int(counts.argmin())]
        raise DataError(
            f"{path}: class {label!r} has {counts.min()} images, expected at least 2, of which one validates"
        )
    copies = picture_digests(large.x)
    part = choose(large.y, large.names or copies, share, seed, copies)
    validation = large.take(part)
    if from_folder and size:
        assert validation.names is not None
        files = ClassFolders(path, validation.labels, validation.names, validation.y.astype(np.int64))
        validation = replace(validation, x=read_squares(files, size, lambda _: None)[0])  # reported above
    return PicturesData(data_name(path), large.take(~part), validation)


def load_test(path: Path, data: Path, pictures: PicturesData, report: Report = _log.warning) -> Dataset:
    """Read test images at the network's size; their classes, matched by name, are some or all of the training data's.

    Raises DataError, also if all of them are training pictures; if some are, reports their number.
    """
    labels = pictures.training.labels
    side = pictures.training.x.shape[1]
    test = load_dataset(path, "test", pictures.size, report, labels=labels)
    at_training_size = test
    if test.names is not None and side != pictures.size:
        at_training_size = load_dataset(path, "test", side, lambda _: None)
    check_apart(pictures.training, at_training_size, data, path, report)
    return replace(test, labels=labels, y=in_labels(test.y, test.labels, labels, path, report))


def data_name(path: Path) -> str:
    """The name of a data set: that of its folder or file, or of the folder around a part such as "train"."""
    whole = path.resolve()
    name = whole.name if whole.is_dir() else whole.stem
    return whole.parent.name or name if name.lower() in _PART_NAMES else name
