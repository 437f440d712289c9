"""Which image files the arguments of a command mean, and how one is read."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import PICTURE_SUFFIXES, read_picture


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


def read_image(path: str) -> tuple[NDArray[np.uint8], str | None]:
    """Pixels [H, W, 3] BGR, and what the decoder complained of, if it did.

    Raises FrameError as `read_picture`, and for a JPEG whose data end early: the decoder fills the rest with gray.
    """
    with _standard_error_of_libraries() as lines:
        pixels = read_picture(Path(path))
    cut = next((line for line in lines if "premature end" in line), None)
    if cut is not None:
        raise FrameError(f"image {path} is damaged: {cut}")
    return pixels, "; ".join(dict.fromkeys(lines)) or None


@contextmanager
def _standard_error_of_libraries() -> Iterator[list[str]]:
    """Yields lines, filled at the end: libjpeg and libpng write to the process's standard error, without a name."""
    lines: list[str] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        caught.seek(0)
        lines.extend(caught.read().decode(errors="replace").split("\n"))
        lines[:] = [line.strip() for line in lines if line.strip()]
