"""Picture files as frames."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import edgemeta
from edgemeta.model.errors import FrameError
from edgemeta.model.small_file import FileError, read_small_file

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # an unreadable picture is an error of ours

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
"""Endings, in small letters, of the files in a folder that count as pictures."""

MOST_BYTES = 1 << 28
"""Of a picture file."""

_PNG = b"\x89PNG\r\n\x1a\n"


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Decode a picture file of any depth, gray, palette or colour, to uint8 [H, W, 3] in B, G, R order.

    Raises FrameError. A JPEG without its end marker is refused: decoders fill the missing part with gray without an
    error. So is a PNG with a part that is longer than the file: the decoder would take as much memory as is claimed.
    """
    try:
        content = read_small_file(path, MOST_BYTES)
    except FileError as error:
        raise FrameError(f"image {error}") from error
    if content[:2] == b"\xff\xd8" and b"\xff\xd9" not in content[2:]:
        raise FrameError(f"image {path} is a JPEG truncated after {len(content)} bytes")
    if content.startswith(_PNG) and not _is_whole_png(content):
        raise FrameError(f"image {path} is a PNG truncated or damaged: {len(content)} bytes, less than its parts claim")
    if not content:
        raise FrameError(f"image {path} is empty")
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:  # a size in its header that OpenCV does not take
        most = f"at most {edgemeta.MAX_PIXELS / 1e6:.0f} million pixels"
        raise FrameError(f"image {path} claims a size that is too large, expected {most}") from error
    if pixels is None:
        raise FrameError(f"image {path} cannot be decoded, expected JPEG, PNG or the like")
    return np.asarray(pixels, np.uint8)


def _is_whole_png(content: bytes) -> bool:
    """Whether all parts up to the last one, IEND, lie in the file. A part: length, name, data, checksum."""
    place, name = len(_PNG), b""
    while name != b"IEND":
        if place + 12 > len(content):
            return False
        name = content[place + 4 : place + 8]
        place += 12 + int.from_bytes(content[place : place + 4], "big")
    return place <= len(content)


def read_checked_picture(path: Path) -> tuple[NDArray[np.uint8], str | None]:
    """Pixels [H, W, 3] BGR, and what the decoder complained of, if it did.

    Raises FrameError as `read_picture`, and for a JPEG whose data end early: the decoder fills the rest with gray. It
    redirects the standard error of the process while it reads, so it is for commands, not for a process whose other
    threads write there.
    """
    with _standard_error_of_libraries() as lines:
        pixels = read_picture(path)
    cut = next((line for line in lines if "premature end" in line.lower()), None)
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
