"""Which image files the arguments of a command mean."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import PICTURE_SUFFIXES


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
