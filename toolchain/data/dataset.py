"""Image data sets for training, calibration and evaluation: one record, one loader for all formats.

Supported: the official CIFAR-10 binary files, the official CIFAR-10 Python batches, `.npz` archives with pixels, and
`.npz` archives of JPEG files (docs/training.md describes each). Nothing in a file is ever executed. Every problem
raises a DataError of one sentence with the file, what was found and what was expected.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.cifar_files import RECORD, read_binary, read_python_batch
from edgemeta.toolchain.data.jpeg_container import decode_container
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

Split = Literal["train", "test"]

_FILES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test": ("test_batch",),
}
_ENDS = (".bin", "")


@dataclass(frozen=True)
class Dataset:
    """Images with their classes.

    x: uint8 [N, H, W, 3], RGB. y: uint8 [N], index into `labels`. N >= 1.
    """

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]
    labels: tuple[str, ...] = CIFAR10_LABELS

    def __len__(self) -> int:
        return len(self.y)

    def sha256(self) -> str:
        """SHA-256 (hex) of the bytes of all pixels, C order: identifies a data set independent of its file."""
        return hashlib.sha256(np.ascontiguousarray(self.x).tobytes()).hexdigest()

    def balanced(self, count: int) -> "Dataset":
        """The first count / classes images of every class, in order: a deterministic sample for calibration."""
        share = max(1, count // len(self.labels))
        keep = np.zeros(len(self.y), dtype=bool)
        for label in range(len(self.labels)):
            keep[np.flatnonzero(self.y == label)[:share]] = True
        return Dataset(self.x[keep], self.y[keep], self.labels)


@dataclass(frozen=True)
class Alternates:
    """Alternative pixels of some images of a training set.

    x: uint8 [M, H, W, 3]. index: int64 [M], the corresponding images of the training set; unique.
    """

    x: NDArray[np.uint8]
    index: NDArray[np.int64]


def load_dataset(path: Path, split: Split = "test") -> Dataset:
    """Read a data set from a file, or from a folder of official CIFAR-10 files.

    split chooses the files inside a folder and is ignored for a single file. Raises DataError.
    """
    if path.is_dir():
        return _from_folder(path, split)
    head = _head(path)
    if head.startswith(b"PK\x03\x04"):
        return _from_npz(path)
    if head.startswith(b"\x80"):
        x, y = read_python_batch(path)
    elif head and head[0] < len(CIFAR10_LABELS):
        x, y = read_binary(path)
    else:
        raise DataError(
            f"{path}: begins with {head[:4]!r}, expected an .npz archive, a CIFAR-10 binary file "
            "(3,073-byte records) or a CIFAR-10 Python batch"
        )
    return Dataset(x, y)


def is_dataset(path: Path) -> bool:
    """Whether a file begins like a data set, or a folder holds official CIFAR-10 files (they may still be damaged)."""
    if path.is_dir():
        return any((path / f"{name}{end}").is_file() for names in _FILES.values() for name in names for end in _ENDS)
    head = _head(path)
    is_binary = head[:1] < bytes([len(CIFAR10_LABELS)]) and path.stat().st_size % RECORD == 0
    return head.startswith((b"PK\x03\x04", b"\x80")) or (bool(head) and is_binary)


def load_alternates(path: Path, train: Dataset) -> Alternates:
    """Read an `.npz` with x (uint8 [M, H, W, 3]), y and index (the corresponding images of `train`).

    Raises DataError, also if a label differs from that of the corresponding image.
    """
    members = _members(path)
    _require(path, members, ("x", "y", "index"))
    x, y = _pixels(path, members["x"]), _classes(path, members["y"], train.labels)
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
    parts: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
    for name in _FILES[split]:
        binary, pickled = path / f"{name}.bin", path / name
        if binary.is_file():
            parts.append(read_binary(binary))
        elif pickled.is_file():
            parts.append(read_python_batch(pickled))
        else:
            raise DataError(f"{path}: has neither {name}.bin nor {name}, expected the official files")
    return Dataset(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def _from_npz(path: Path) -> Dataset:
    members = _members(path)
    if "jpeg" in members:
        _require(path, members, ("jpeg", "offsets", "y"))
        x = decode_container(path, members["jpeg"], members["offsets"])
    else:
        _require(path, members, ("x", "y"))
        x = _pixels(path, members["x"])
    labels = _labels(path, members["labels"]) if "labels" in members else CIFAR10_LABELS
    y = _classes(path, members["y"], labels)
    if len(x) != len(y):
        raise DataError(f"{path}: holds {len(x)} images and {len(y)} labels, expected equal numbers")
    return Dataset(x, y, labels)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _members(path: Path) -> dict[str, NDArray[Any]]:
    """All members of an .npz archive; nothing is unpickled."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is a single array, expected an .npz archive")
            return {name: archive[name] for name in archive.files}
    except DataError:
        raise
    except Exception as error:  # a damaged archive can fail in any way, in zip, zlib or the header's parser
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not a complete .npz archive ({reason})") from error


def _require(path: Path, members: Mapping[str, object], names: tuple[str, ...]) -> None:
    if not all(name in members for name in names):
        found = ", ".join(sorted(members)) or "nothing"
        raise DataError(
            f"{path}: the archive holds {found}, expected x and y, or jpeg, offsets and y"
            if "index" not in names
            else f"{path}: the archive holds {found}, expected {', '.join(names)}"
        )


def _pixels(path: Path, x: NDArray[Any]) -> NDArray[np.uint8]:
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != 3 or 0 in x.shape:
        raise DataError(f"{path}: x is {x.dtype} {x.shape}, expected uint8 [images, height, width, 3]")
    return x


def _classes(path: Path, y: NDArray[Any], labels: tuple[str, ...]) -> NDArray[np.uint8]:
    if y.dtype.kind not in "iu" or y.ndim != 1 or not len(y):
        raise DataError(f"{path}: y is {y.dtype} {y.shape}, expected integers [images]")
    if y.min() < 0 or y.max() >= len(labels):
        raise DataError(f"{path}: labels run from {y.min()} to {y.max()}, expected 0..{len(labels) - 1}")
    return y.astype(np.uint8)


def _labels(path: Path, names: NDArray[Any]) -> tuple[str, ...]:
    if names.dtype.kind != "U" or names.ndim != 1 or not 1 <= len(names) <= 256:
        raise DataError(f"{path}: labels is {names.dtype} {names.shape}, expected 1 to 256 strings")
    return tuple(str(name) for name in names)
