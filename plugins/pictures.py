"""Picture files as frames."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # an unreadable picture is an error of ours

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
"""Endings, in small letters, of the files in a folder that count as pictures."""


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Decode a picture file of any depth, gray, palette or colour, to uint8 [H, W, 3] in B, G, R order.

    Raises FrameError. A JPEG without its end marker is refused: decoders fill the missing part with gray without an
    error.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FrameError(f"image {path} cannot be read: {error.strerror}") from error
    if content[:2] == b"\xff\xd8" and b"\xff\xd9" not in content[2:]:
        raise FrameError(f"image {path} is a JPEG truncated after {len(content)} bytes")
    if not content:
        raise FrameError(f"image {path} is empty")
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # for example more pixels than OpenCV takes
        pixels = None
    if pixels is None:
        raise FrameError(f"image {path} cannot be decoded, expected JPEG, PNG or the like")
    return np.asarray(pixels, np.uint8)
