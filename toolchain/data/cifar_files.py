"""The official files of CIFAR-10 and CIFAR-100: binary records and Python batches.

Binary: records of 3,073 bytes: 1 label byte, then 1,024 red, 1,024 green, 1,024 blue bytes, row by row; CIFAR-100 has
3,074, with the coarse label before the fine one, which is read. Python: a pickled mapping with `data` (uint8 [N, 3072],
the same plane order) and `labels`, in CIFAR-100 `fine_labels`. Unpickling can normally run any code;
here every global that a pickle names is replaced by an inert record of this file, and all names except the five of the
official files are refused, so a hostile file is only rejected. Both return x uint8 [N, 32, 32, 3] and y uint8 [N].
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import DataError

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
RECORD_100 = RECORD + 1
CLASSES, CLASSES_100 = 10, 100
#: Largest file that is read, bytes; an official batch has 31 million.
MAX_BYTES = 1 << 30

Images = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Pixels [N, 32, 32, 3] in R, G, B order, and classes [N]."""


def read_binary(path: Path) -> Images:
    """Read a file of CIFAR-10's binary records. Raises DataError."""
    records = _records(path, RECORD, "one label and 3,072 pixels per record")
    return _images(path, records[:, 1:], records[:, 0], CLASSES)


def read_binary_100(path: Path) -> Images:
    """Read a file of CIFAR-100's binary records, with their fine labels. Raises DataError."""
    records = _records(path, RECORD_100, "two labels and 3,072 pixels per record")
    return _images(path, records[:, 2:], records[:, 1], CLASSES_100)


def read_python_batch(path: Path) -> tuple[Images, int]:
    """Read a Python batch without running anything in it; also the number of classes, 10 or 100. Raises DataError."""
    data = _bytes(path)
    try:
        content = _InertUnpickler(io.BytesIO(data), encoding="bytes").load()
    except _RefusedError as error:
        raise DataError(f"{path}: {error}, expected a CIFAR-10 Python batch") from error
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(
            f"{path}: not a complete Python batch ({type(error).__name__} while reading the pickle)"
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}, expected a mapping")
    members = {_text(k): v for k, v in content.items()}
    labels, classes = ("fine_labels", CLASSES_100) if "fine_labels" in members else ("labels", CLASSES)
    if "data" not in members or labels not in members:
        names = ", ".join(sorted(members)) or "nothing"
        raise DataError(f"{path}: the batch holds {names}, expected data and labels")
    return _images(path, _pixels(path, members["data"]), _labels(path, members[labels]), classes), classes


def _records(path: Path, size: int, content: str) -> NDArray[np.uint8]:
    data = _bytes(path)
    if not data or len(data) % size:
        raise DataError(f"{path}: has {len(data)} bytes, expected a multiple of {size} ({content})")
    return np.frombuffer(data, np.uint8).reshape(-1, size)


def _images(path: Path, planes: NDArray[np.uint8], y: NDArray[np.uint8], classes: int) -> Images:
    if len(planes) != len(y):
        raise DataError(f"{path}: holds {len(planes)} images and {len(y)} labels, expected equal numbers")
    if y.max() >= classes:
        first = int(np.flatnonzero(y >= classes)[0])
        raise DataError(f"{path}: record {first} has label {y[first]}, expected 0..{classes - 1}")
    x = planes.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{path}: has {size} bytes, expected at most {MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


class _RefusedError(Exception):
    """The pickle requests something that no official batch contains."""


class _DType:
    """Placeholder for a NumPy dtype in a pickle; stores its name only."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = _text(name)

    def __setstate__(self, state: object) -> None:
        """Ignores byte order and flags, which are irrelevant for single bytes."""


class _Array:
    """Placeholder for a NumPy array in a pickle; stores shape, dtype, order and bytes as found."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple):
            self.state = state


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: object, encoding: object = "latin1", *_: object) -> bytes:
    if not isinstance(text, str) or _text(encoding) != "latin1":
        raise _RefusedError("the pickle encodes something other than latin-1 text")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _InertUnpickler(pickle.Unpickler):
    """An unpickler that allows five names, each replaced by an inert record, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        """The placeholder for module.name. Raises _RefusedError for any other name."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _RefusedError(f"the pickle refers to {module}.{name}") from None

    def persistent_load(self, pid: object) -> Any:
        """Always raises _RefusedError: official files have no persistent ids."""
        raise _RefusedError("the pickle refers to an external object")


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _pixels(path: Path, value: object) -> NDArray[np.uint8]:
    wanted = f"expected uint8 [images, {RECORD - 1}]"
    if not isinstance(value, _Array) or len(value.state) != 5:
        raise DataError(f"{path}: data is a {type(value).__name__.lstrip('_')}, {wanted}")
    _, shape, dtype, fortran, raw = value.state
    if isinstance(raw, str):
        raw = raw.encode("latin1", "replace")
    kind = dtype.name if isinstance(dtype, _DType) else "unknown"
    good = (
        kind in ("u1", "|u1")
        and isinstance(shape, tuple)
        and len(shape) == 2
        and all(isinstance(n, int) for n in shape)
        and shape[0] > 0
        and shape[1] == RECORD - 1
    )
    if not good:
        raise DataError(f"{path}: data is {kind} {shape!r:.60}, {wanted}")
    if fortran or not isinstance(raw, bytes) or len(raw) != shape[0] * shape[1]:
        raise DataError(f"{path}: data is not stored as {shape[0] * shape[1]} bytes row by row, {wanted}")
    return np.frombuffer(raw, np.uint8).reshape(shape)


def _labels(path: Path, value: object) -> NDArray[np.uint8]:
    good = isinstance(value, list) and bool(value)
    if not good or not all(type(v) is int and 0 <= v < 256 for v in value):  # type: ignore[attr-defined]
        raise DataError(f"{path}: labels is not a list of class numbers, expected one for each image")
    return np.array(value, dtype=np.uint8)
