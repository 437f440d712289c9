"""The picture of one object, as a network that names objects sees it when it is taught and when it runs."""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

CROP_SIDE = 128
"""Pixels of a side: more than networks that are taught look at."""


def object_crop(pixels: NDArray[np.uint8], box: Sequence[float]) -> NDArray[np.uint8]:
    """What a box x0, y0, x1, y1 in pixels of a picture [H, W, 3] or [H, W] shows, stretched to a square of CROP_SIDE.

    Its edges are rounded outward and limited to the picture; it has at least one pixel. Smaller by area averages,
    greater bilinear. Returns uint8 [CROP_SIDE, CROP_SIDE, 3] or [CROP_SIDE, CROP_SIDE].
    """
    height, width = pixels.shape[:2]
    left, top = (min(max(math.floor(side), 0), most - 1) for side, most in zip(box[:2], (width, height), strict=True))
    right, bottom = min(max(math.ceil(box[2]), left + 1), width), min(max(math.ceil(box[3]), top + 1), height)
    part = np.ascontiguousarray(pixels[top:bottom, left:right])
    is_smaller = min(part.shape[:2]) >= CROP_SIDE
    method = cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(part, (CROP_SIDE, CROP_SIDE), interpolation=method), np.uint8)
