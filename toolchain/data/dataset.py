"""Image data sets for training, calibration and evaluation: one record, one loader for all formats.

Supported: a folder of pictures for each class, `.npz` archives with pixels or of JPEG files, and the official files of
CIFAR-10 and CIFAR-100, binary or Python batches (docs/training.md describes each). Nothing in a file is ever executed.
Every problem raises a DataError of one sentence with the file, what was found and what was expected.
"""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.toolchain.data.cifar100_labels import CIFAR100_LABELS
from edgemeta.toolchain.data.cifar_files import (
    CLASSES_100,
    RECORD,
    RECORD_100,
    read_binary,
    read_binary_100,
    read_python_batch,
)
from edgemeta.toolchain.data.class_folders import is_class_folder, list_class_folders
from edgemeta.toolchain.data.copies import contradictions
from edgemeta.toolchain.data.jpeg_container import decode_container
from edgemeta.toolchain.data.npz_files import MAX_LABELS, classes_of, labels_of, members_of, pixels_of, require_members
from edgemeta.toolchain.data.picture_files import read_squares
from edgemeta.toolchain.errors import DataError

#: Class names of CIFAR-10 in label order.
CIFAR10_LABELS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

#: Names of classes for those who need none: the numbers.
NUMBERS = tuple(str(number) for number in range(MAX_LABELS))

Split = Literal["train", "test"]

_FILES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test": ("test_batch",),
}
"""Files of CIFAR-10, which all belong to a split; CIFAR-100 has one, with the name of the split."""
_ENDS = (".bin", "")
_COARSE = 20
"""CIFAR-100's coarse classes, the first byte of a record."""


@dataclass(frozen=True)
class Dataset:
    """Images with their classes.

    x: uint8 [N, H, W, 3], RGB. y: integers [N], index into `labels`. N >= 1. names: of the pictures, "class/file"; None
    where they come from one file.
    """

    x: NDArray[np.uint8]
    y: NDArray[np.integer]
    labels: tuple[str, ...] = CIFAR10_LABELS
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def sha256(self) -> str:
        """SHA-256 (hex) of the bytes of all pixels, C order: identifies a data set independent of its file."""
        return hashlib.sha256(np.ascontiguousarray(self.x).reshape(-1).data).hexdigest()

    def balanced(self, count: int) -> "Dataset":
        """The first count / classes images of every class that has some, in order: a fixed sample for calibration."""
        classes = np.unique(self.y)
        share = max(1, count // len(classes))
        keep = np.zeros(len(self.y), dtype=bool)
        for label in classes:
            keep[np.flatnonzero(self.y == label)[:share]] = True
        return self.take(keep)

    def frames(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The number, from 0, and the pixels, uint8 [H, W, 3] in B, G, R order, of each image."""
        for number, image in enumerate(self.x):
            yield number, np.ascontiguousarray(image[..., ::-1])

    def take(self, which: NDArray[np.bool_] | NDArray[np.integer]) -> "Dataset":
        """Some of the images: a mask [N], or their numbers in the order wanted. All labels stay."""
        names = None if self.names is None else tuple(self.names[i] for i in np.arange(len(self))[which])
        return Dataset(self.x[which], self.y[which], self.labels, names)


@dataclass(frozen=True)
class Alternates:
    """Alternative pixels of some images of a training set.

    x: uint8 [M, H, W, 3]. index: int64 [M], the corresponding images of the training set; unique.
    """

    x: NDArray[np.uint8]
    index: NDArray[np.int64]

    def of(self, kept: NDArray[np.bool_]) -> "Alternates":
        """Those of a part of the training set, bool [N] of its images, numbered as the images of that part."""
        mine = kept[self.index]
        return Alternates(self.x[mine], (np.cumsum(kept) - 1)[self.index[mine]])


_log = logging.getLogger(__name__)


def load_dataset(
    path: Path,
    split: Split = "test",
    size: int | None = None,
    report: Report = _log.warning,
    *,
    labels: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a data set: a folder of pictures for each class, a file, or a folder of official CIFAR files.

    split chooses among the official files in a folder and is ignored otherwise. size: side of the squares that
    pictures become (`make_square`); a folder of pictures needs it, other images are checked to have it, where it is
    given. report: is called with one sentence for each picture or file that is left out. labels: names for the classes
    of an archive that has none; without them it is refused. Raises DataError.
    """
    if is_class_folder(path) or (path.is_dir() and not is_dataset(path)):
        return _from_pictures(path, size, report)
    dataset = _from_folder(path, split) if path.is_dir() else _from_file(path, labels)
    if size is not None and dataset.x.shape[1:3] != (size, size):
        height, width = dataset.x.shape[1:3]
        raise DataError(f"{path}: images are {width}x{height} pixels, expected {size}x{size}")
    return dataset


def _from_pictures(path: Path, size: int | None, report: Report) -> Dataset:
    files = list_class_folders(path, report)
    if size is None:
        raise DataError(f"{path}: is a folder of pictures, expected also the size that they are to have, in pixels")
    x, read = read_squares(files, size, report)
    dataset = Dataset(x, files.y[read], files.labels, tuple(files.names[i] for i in read))
    for one, other in contradictions(x, dataset.y):
        report(f"{files.file(read[other])}: is the same picture as {files.file(read[one])}, of another class")
    return dataset


def _from_file(path: Path, labels: tuple[str, ...] | None) -> Dataset:
    head = _head(path)
    if head.startswith(b"PK\x03\x04"):
        return _from_npz(path, labels)
    if head.startswith(b"\x80"):
        images, classes = read_python_batch(path)
        return Dataset(*images, CIFAR100_LABELS if classes == CLASSES_100 else CIFAR10_LABELS)
    if head and head[0] < _COARSE and path.stat().st_size % RECORD_100 == 0:
        return Dataset(*read_binary_100(path), CIFAR100_LABELS)
    if head and head[0] < len(CIFAR10_LABELS):
        return Dataset(*read_binary(path), CIFAR10_LABELS)
    raise DataError(
        f"{path}: begins with {head[:4]!r}, expected an .npz archive, a CIFAR-10 binary file (3,073-byte records), a "
        "CIFAR-100 binary file (3,074-byte records) or a Python batch of either"
    )


def is_dataset(path: Path) -> bool:
    """Whether a file begins like a data set, or a folder holds official CIFAR-10 files (they may still be damaged)."""
    if path.is_dir():
        names = [name for files in _FILES.values() for name in files]
        return any((path / f"{name}{end}").is_file() for name in (*names, *_FILES) for end in _ENDS)
    head, size = _head(path), path.stat().st_size
    is_binary = head[:1] < bytes([len(CIFAR10_LABELS)]) and size % RECORD == 0
    is_binary |= head[:1] < bytes([_COARSE]) and size % RECORD_100 == 0
    return head.startswith((b"PK\x03\x04", b"\x80")) or (bool(head) and is_binary)


def load_alternates(path: Path, train: Dataset) -> Alternates:
    """Read an `.npz` with x (uint8 [M, H, W, 3]), y and index (the corresponding images of `train`).

    Raises DataError, also if a label differs from that of the corresponding image.
    """
    members = members_of(path)
    require_members(path, members, ("x", "y", "index"))
    x, y = pixels_of(path, members["x"]), classes_of(path, members["y"], train.labels)
    index = np.asarray(members["index"])
    if index.ndim != 1 or index.dtype.kind not in "iu" or not len(index) == len(x) == len(y):
        raise DataError(
            f"{path}: index is {index.dtype} {index.shape} for {len(x)} images and {len(y)} labels, "
            "expected one integer per image"
        )
    if x.shape[1:] != train.x.shape[1:]:
        raise DataError(f"{path}: images are {x.shape[1:]}, expected {train.x.shape[1:]}")
    if index.min() < 0 or index.max() >= len(train) or len(np.unique(index)) != len(index):
        raise DataError(
            f"{path}: index runs from {index.min()} to {index.max()}, expected different numbers in 0..{len(train) - 1}"
        )
    index = index.astype(np.int64)
    wrong = int((train.y[index] != y).sum())
    if wrong:
        raise DataError(f"{path}: {wrong} labels differ from those of the corresponding training images, expected none")
    return Alternates(x, index)


def _from_folder(path: Path, split: Split) -> Dataset:
    whole = [path / f"{split}{end}" for end in _ENDS if (path / f"{split}{end}").is_file()]
    if whole:
        return _from_file(whole[0], None)
    parts: list[Dataset] = []
    for name in _FILES[split]:
        found = [path / f"{name}{end}" for end in _ENDS if (path / f"{name}{end}").is_file()]
        if not found:
            raise DataError(
                f"{path}: has neither {name}.bin nor {name}, expected the official files (of CIFAR-100 {split}.bin or "
                f"{split})"
            )
        parts.append(_from_file(found[0], None))
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    return Dataset(x, y, CIFAR10_LABELS)


def _from_npz(path: Path, names: tuple[str, ...] | None) -> Dataset:
    members = members_of(path)
    if "jpeg" in members:
        require_members(path, members, ("jpeg", "offsets", "y"))
        x = decode_container(path, members["jpeg"], members["offsets"])
    else:
        require_members(path, members, ("x", "y"))
        x = pixels_of(path, members["x"])
    labels = labels_of(path, members["labels"]) if "labels" in members else names
    if labels is None:
        raise DataError(f"{path}: does not name its classes, expected `labels`, a string for each, beside x and y")
    y = classes_of(path, members["y"], labels)
    if len(x) != len(y):
        raise DataError(f"{path}: holds {len(x)} images and {len(y)} labels, expected equal numbers")
    return Dataset(x, y, labels)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
