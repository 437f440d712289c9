"""A folder with a sub-folder of pictures for each class, as a list of files: names and classes, without pixels.

The name of a sub-folder is the label; its pictures lie directly in it. What is left out is reported, never silent:
hidden files and folders (their names begin with a dot), files that are no pictures, pictures beside the class folders,
and folders within a class folder. The order is that of the labels, then of the file names, on every machine.
"""

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.errors import ModelError
from edgemeta.model.require import require_text
from edgemeta.plugins.pictures import PICTURE_SUFFIXES
from edgemeta.toolchain.errors import DataError


@dataclass(frozen=True, eq=False)
class ClassFolders:
    """The pictures of a folder.

    path: the folder. labels: names of its classes, sorted. names: of each picture, "class/file", in the order of
    labels, then of files. y: int64 [N], index into labels.
    """

    path: Path
    labels: tuple[str, ...]
    names: tuple[str, ...]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def file(self, number: int) -> Path:
        """Path of picture `number`, counted from 0."""
        return self.path / self.names[number]


def is_class_folder(path: Path) -> bool:
    """Whether a folder has a sub-folder with a picture directly in it (what is hidden does not count)."""
    try:
        return path.is_dir() and any(_contents(each).pictures for each in _contents(path).folders)
    except DataError:
        return False


def class_names(path: Path) -> tuple[str, ...]:
    """Names of the folders in a folder, sorted; hidden ones are left out. Raises DataError."""
    return tuple(folder.name for folder in _contents(path).folders)


def list_class_folders(path: Path, report: Report, *, least_classes: int = 2) -> ClassFolders:
    """List the pictures of a folder. report: is called for what is left out.

    Raises DataError for fewer than `least_classes` classes, a class without pictures, a name that cannot be a label,
    names that differ only in case, and folders that cannot be read.
    """
    top = _contents(path)
    if not top.folders:
        raise DataError(
            f"{path}: has no folders, expected one of pictures for each class, or CIFAR-10's official files"
        )
    labels = [folder.name for folder in top.folders]
    _check_labels(path, labels)
    if top.pictures:
        report(f"{path}: {_counted(top.pictures, 'picture')} beside the folders of the classes, left out")
    _report_others(path, top.others, report)
    classes = [_pictures_of(folder, report) for folder in top.folders]
    if len(labels) < least_classes:
        raise DataError(f"{path}: has only the class {labels[0]!r}, expected at least {least_classes} folders")
    names = tuple(f"{label}/{picture}" for label, pictures in zip(labels, classes, strict=True) for picture in pictures)
    y = np.repeat(np.arange(len(labels)), [len(pictures) for pictures in classes])
    return ClassFolders(path, tuple(labels), names, y)


@dataclass(frozen=True)
class _Contents:
    """What lies directly in a folder, each sorted by name. others: hidden entries and files that are no pictures."""

    folders: list[Path]
    pictures: list[str]
    others: list[str]


def _contents(path: Path) -> _Contents:
    found = _Contents([], [], [])
    try:
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith("."):
                    found.others.append(entry.name)
                elif entry.is_dir():
                    found.folders.append(path / entry.name)
                elif Path(entry.name).suffix.lower() in PICTURE_SUFFIXES and entry.is_file():
                    found.pictures.append(entry.name)
                else:
                    found.others.append(entry.name)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return found


def _pictures_of(folder: Path, report: Report) -> list[str]:
    """File names of a class's pictures."""
    inside = _contents(folder)
    deeper = [each.name for each in inside.folders if _contents(each).pictures]
    if not inside.pictures and deeper:
        raise DataError(
            f"{folder}: its pictures lie in folders of their own ({some_of(deeper)}), expected them directly in the "
            "folder of their class"
        )
    if not inside.pictures:
        raise DataError(
            f"{folder}: has no pictures, expected at least one of this class ({', '.join(sorted(PICTURE_SUFFIXES))})"
        )
    if inside.folders:
        report(f"{folder}: {_counted([each.name for each in inside.folders], 'folder')} within a class, left out")
    _report_others(folder, inside.others, report)
    return inside.pictures


def _check_labels(path: Path, labels: list[str]) -> None:
    first: dict[str, str] = {}
    for label in labels:
        try:
            require_text(label, f"{path}: the name of a class folder")
        except ModelError as error:
            raise DataError(f"{error}, as it becomes a label") from error
        other = first.setdefault(unicodedata.normalize("NFC", label).casefold(), label)
        if other != label:
            raise DataError(f"{path}: the folders {other!r} and {label!r} differ only in case, expected one per class")


def _report_others(path: Path, names: list[str], report: Report) -> None:
    if names:
        report(f"{path}: {_counted(names, 'entry', 'entries')} hidden or no picture, left out")


def _counted(names: list[str], one: str, many: str | None = None) -> str:
    what = one if len(names) == 1 else many or f"{one}s"
    return f"{len(names):,} {what} ({some_of(names)})"


def some_of(names: Sequence[str], most: int = 5) -> str:
    """The first names, for a sentence."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
