"""The image files that a command's arguments mean, and how many of them get the label of their folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification
from edgemeta.plugins.pictures import PICTURE_SUFFIXES
from edgemeta.tasks.results import Result
from edgemeta.toolchain.data.class_folders import class_names, is_class_folder


class FolderAgreement:
    """Counts images that lie in a class folder of the arguments, if all class folders of an argument are labels."""

    def __init__(self, model: Model, arguments: Sequence[str]) -> None:
        self._folders: dict[Path, str] = {}
        self._images = self._right = 0
        if not isinstance(model.task, Classification):
            return
        for folder in map(Path, arguments):
            names = class_names(folder) if is_class_folder(folder) else ()
            if set(names) <= set(model.labels):
                self._folders |= {folder / name: name for name in names}

    def add(self, file: Path, result: Result) -> None:
        """Count an image with its result, the best label first."""
        label = self._folders.get(file.parent)
        if label is not None:
            self._images += 1
            self._right += bool(result.labels) and result.labels[0][0] == label

    @property
    def line(self) -> str | None:
        """The share of images, as a sentence; None if there are no such images."""
        if not self._images:
            return None
        share = 100 * self._right / self._images
        return f"{share:.2f} % of {self._images:,} images get the label of their folder"


def image_files(arguments: Sequence[str]) -> Iterator[str | FrameError]:
    """Files as they are given, of a folder those with the suffix of an image, sub-folders included, by path.

    A folder that has none, or that cannot be read, is an error in its place.
    """
    for argument in arguments:
        if Path(argument).is_dir():
            yield from _in_folder(argument)
        else:
            yield argument


def _in_folder(folder: str) -> Iterator[str | FrameError]:
    unreadable: list[OSError] = []
    found = [
        str(Path(parent, name))
        for parent, _, names in os.walk(folder, onerror=unreadable.append)
        for name in names
        if Path(name).suffix.lower() in PICTURE_SUFFIXES
    ]
    for error in unreadable:
        yield FrameError(f"folder {error.filename} cannot be read: {error.strerror}")
    if not found and not unreadable:
        yield FrameError(f"folder {folder} has no images ({', '.join(sorted(PICTURE_SUFFIXES))})")
    yield from sorted(found)
