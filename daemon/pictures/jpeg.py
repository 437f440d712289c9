"""JPEGs of frames: scaled to a longest side, or to a number of bytes."""

import cv2
import numpy as np

from edgemeta.daemon.capture.source import Pixels

LEAST_QUALITY = 30
LEAST_SIDE = 64
"""Pixels."""

SMALLER = 0.7
"""Factor of the sides between two attempts."""


def encode(pixels: Pixels, quality: int) -> bytes:
    """Return a picture [H, W, 3], BGR, as JPEG."""
    done, jpeg = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert done, "frames of uint8 can be encoded"
    return jpeg.tobytes()


def scaled(pixels: Pixels, longest_side: int) -> Pixels:
    """Return a picture of at most so many pixels in its longer side; a smaller one as it is."""
    height, width = pixels.shape[:2]
    scale = longest_side / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def fitted(pixels: Pixels, most_bytes: int, quality: int) -> bytes | None:
    """Return a picture as JPEG of at most so many bytes; None where it does not fit.

    First the quality is lowered, halfway to LEAST_QUALITY and then to it; then the size, down to LEAST_SIDE.
    """
    while True:
        for tried in dict.fromkeys((quality, (quality + LEAST_QUALITY) // 2, LEAST_QUALITY)):
            if len(jpeg := encode(pixels, tried)) <= most_bytes:
                return jpeg
        side = int(SMALLER * max(pixels.shape[:2]))
        if side < LEAST_SIDE:
            return None
        pixels = scaled(pixels, side)
