"""A run's folder and its output file: what is checked before a training begins, and what `--fresh` deletes."""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgemeta.model.atomic_write import atomic_file, prepare_output, write_atomically
from edgemeta.model.callbacks import Report
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.errors import CheckpointError

VALIDATION = "validation.npz"
"""Name of the file with the training images that a run holds out."""

_FILES = (
    *("network.pt", "teacher-[0-9]*.pt", "student.pt", "continuation-[0-9]*.pt", "logits-*-[0-9]*.npy", "log.jsonl"),
    *(VALIDATION, "confusion.txt", "confusion.png", "curves.png", "curves.html"),
    *("quantized.pt", "report.html", "report.png"),
)
"""Files that a run writes into its folder."""
_LOCK = "run.lock"


def data_digest(*parts: Dataset | Alternates) -> str:
    """SHA-256 (hex) of pixels, classes and labels of all parts of the training data, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        numbers, labels = (part.y, part.labels) if isinstance(part, Dataset) else (part.index, ())
        digest.update(json.dumps([type(part).__name__, part.x.shape, labels]).encode())
        digest.update(np.ascontiguousarray(part.x).tobytes())
        digest.update(np.ascontiguousarray(numbers.astype(np.int64)).tobytes())
    return digest.hexdigest()


@contextmanager
def opened_run(folder: Path, fresh: bool, report: Report) -> Iterator[None]:
    """Create the run folder if it is missing and keep other trainings out of it; if `fresh`, delete the run in it.

    Nothing else in the folder is deleted. report: called with a sentence about what was deleted. Raises an
    EdgemetaError if the folder cannot be written, or another process trains in it.
    """
    prepare_output(folder / _LOCK)
    with (folder / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: another training is running in it, expected a folder of its own"
            ) from error
        _delete(folder, [f".{pattern}.*" for pattern in _FILES])  # what `atomic_file` left of a run that was killed
        if fresh and (files := _delete(folder, _FILES)):
            report(f"{folder}: deleted the run in it ({files} files) to start afresh")
        yield


def _delete(folder: Path, patterns: Sequence[str]) -> int:
    """Delete the files of these names; returns how many. Raises CheckpointError."""
    files = {path for pattern in patterns for path in folder.glob(pattern)}
    try:
        for path in files:
            path.unlink()
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({error.strerror})") from error
    return len(files)


def save_text(lines: list[str], path: Path) -> None:
    """Write lines of text, atomically."""
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def save_npz(images: Dataset, path: Path) -> None:
    """Write a data set as an archive with x, y and labels, atomically."""
    with atomic_file(path) as file:
        np.savez(file, x=images.x, y=images.y, labels=np.array(images.labels))
