"""Small pictures to look through."""

import cv2
import numpy as np

from edgemeta.daemon.collect.errors import CollectError

SIDE = 160
"""Pixels of the longest side."""

QUALITY = 75


def thumbnail(content: bytes) -> bytes:
    """Return a picture file as a small JPEG. Raises CollectError where it cannot be decoded."""
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_REDUCED_COLOR_2) if content else None
    except cv2.error:  # for example more pixels than OpenCV takes
        pixels = None
    if pixels is None:
        raise CollectError("the picture cannot be decoded")
    height, width = pixels.shape[:2]
    scale = SIDE / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    done, jpeg = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    assert done, "frames of uint8 can be encoded"
    return bytes(jpeg)
