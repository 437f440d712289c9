"""Members of an `.npz` archive as the pixels, classes and labels of a data set; nothing in it is executed.

Each function raises a DataError of one sentence that names the file.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import DataError

MAX_LABELS = 10_000
"""Classes of an archive."""


def has_member(path: Path, name: str) -> bool:
    """Whether a file is an archive with a member of this name (it may still be wrong)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{name}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def members_of(path: Path) -> dict[str, NDArray[Any]]:
    """All members [...] of an archive; nothing is unpickled."""
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


def require_members(path: Path, members: Mapping[str, object], names: tuple[str, ...]) -> None:
    """The archive has these members."""
    if not all(name in members for name in names):
        found = ", ".join(sorted(members)) or "nothing"
        raise DataError(
            f"{path}: the archive holds {found}, expected x and y, or jpeg, offsets and y"
            if "index" not in names
            else f"{path}: the archive holds {found}, expected {', '.join(names)}"
        )


def pixels_of(path: Path, x: NDArray[Any]) -> NDArray[np.uint8]:
    """The images, uint8 [N, H, W, 3]."""
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != 3 or 0 in x.shape:
        raise DataError(f"{path}: x is {x.dtype} {x.shape}, expected uint8 [images, height, width, 3]")
    return x


def classes_of(path: Path, y: NDArray[Any], labels: tuple[str, ...]) -> NDArray[np.int64]:
    """The classes, int64 [N], each the number of a label."""
    if y.dtype.kind not in "iu" or y.ndim != 1 or not len(y):
        raise DataError(f"{path}: y is {y.dtype} {y.shape}, expected integers [images]")
    if y.min() < 0 or y.max() >= len(labels):
        raise DataError(f"{path}: labels run from {y.min()} to {y.max()}, expected 0..{len(labels) - 1}")
    return y.astype(np.int64)


def places_of(path: Path, name: str, numbers: NDArray[Any], count: int, limit: int) -> NDArray[np.int64]:
    """The member of a name: `count` places 0..limit - 1, int64 [count]."""
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise DataError(f"{path}: {name} is {numbers.dtype} {numbers.shape}, expected integers [{count}]")
    if count and (numbers.min() < 0 or numbers.max() >= limit):
        raise DataError(f"{path}: {name} run from {numbers.min()} to {numbers.max()}, expected 0..{limit - 1}")
    return numbers.astype(np.int64)


def labels_of(path: Path, names: NDArray[Any]) -> tuple[str, ...]:
    """The names of the classes, of an array [labels] of strings."""
    if names.dtype.kind != "U" or names.ndim != 1 or not 1 <= len(names) <= MAX_LABELS:
        raise DataError(f"{path}: labels is {names.dtype} {names.shape}, expected 1 to {MAX_LABELS:,} strings")
    return tuple(str(name) for name in names)
