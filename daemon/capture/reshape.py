"""What is made of each picture before anything else sees it: one field, turned, cut to a circle, parts blacked out."""

from collections.abc import Callable, Sequence
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.config.camera import CameraConfig, RegionConfig
from edgemeta.daemon.config.picture import CircleConfig

Step = Callable[[Pixels], Pixels]
"""Makes a picture of a picture; both [H, W, 3]."""

_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}


def steps_of(config: CameraConfig) -> tuple[Step, ...]:
    """Return what is done with each picture of a camera, in order; nothing where no key asks for it."""
    found: list[Step] = []
    if config.deinterlace:
        found.append(one_field)
    if config.rotation:
        found.append(partial(turned, degrees=config.rotation))
    if config.circle is not None:
        found.append(partial(cut_to_circle, circle=config.circle))
    if config.privacy_masks:
        found.append(partial(blacked_out, polygons=config.privacy_masks))
    if config.region != RegionConfig():
        found.append(partial(crop, region=config.region))
    return tuple(found)


def one_field(pixels: Pixels) -> Pixels:
    """Return the picture of its even rows: an odd row is the mean of the rows beside it, rounded to nearest even."""
    made = pixels.copy()
    upper, lower = pixels[0:-1:2][: len(pixels[1::2])], pixels[2::2]
    if len(lower):
        made[1::2][: len(lower)] = cv2.addWeighted(upper[: len(lower)], 0.5, lower, 0.5, 0)
    made[1::2][len(lower) :] = upper[len(lower) :]  # the last row of an even number has none below it
    return made


def turned(pixels: Pixels, degrees: int) -> Pixels:
    """Return the picture turned clockwise by 90, 180 or 270 degrees."""
    return np.asarray(cv2.rotate(pixels, _TURNS[degrees]), np.uint8)


def cut_to_circle(pixels: Pixels, circle: CircleConfig) -> Pixels:
    """Return a copy of the square around the circle, as far as it is in the picture, black outside of the circle."""
    height, width = pixels.shape[:2]
    x, y, radius = circle.x * width, circle.y * height, circle.radius * min(width, height)
    left, right = _span(x, radius, width)
    top, bottom = _span(y, radius, height)
    mask = np.zeros((bottom - top, right - left), np.uint8)
    cv2.circle(mask, (round(x) - left, round(y) - top), max(1, round(radius)), 255, cv2.FILLED)
    return np.asarray(cv2.bitwise_and(pixels[top:bottom, left:right], pixels[top:bottom, left:right], mask=mask))


def _span(middle: float, radius: float, size: int) -> tuple[int, int]:
    """Return the first pixel and the one behind the last within a radius of the middle; never empty."""
    first = min(max(0, round(middle - radius)), size - 1)
    return first, max(first + 1, min(size, round(middle + radius)))


def blacked_out(pixels: Pixels, polygons: Sequence[Sequence[Sequence[float]]]) -> Pixels:
    """Return the picture with the polygons black, their edges included; its own pixels, where these may be written."""
    made = pixels if pixels.flags.writeable and pixels.flags.c_contiguous else pixels.copy()
    for polygon in polygons:  # one by one: where two overlap, both are black
        cv2.fillPoly(made, [_corners(polygon, made)], (0, 0, 0))
    return made


def kept_by(polygons: Sequence[Sequence[Sequence[float]]], shape: tuple[int, ...], step: int) -> NDArray[np.bool_]:
    """Return which of every `step`-th pixel of every `step`-th row of a picture [H, W, ...] no polygon covers."""
    mask = np.full(shape[:2], 255, np.uint8)
    for polygon in polygons:
        cv2.fillPoly(mask, [_corners(polygon, mask)], 0)
    return mask[::step, ::step] > 0


def _corners(polygon: Sequence[Sequence[float]], pixels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return corners as pixels: fraction 0 is the first column or row, 1 the last."""
    height, width = pixels.shape[:2]
    return np.asarray(np.rint(np.array(polygon) * (width - 1, height - 1)), np.int32)


def crop(pixels: Pixels, region: RegionConfig) -> Pixels:
    """Return a copy of the region [h, w, 3]: its corners are rounded to whole pixels, and it is never empty."""
    height, width = pixels.shape[:2]
    top, left = min(round(region.top * height), height - 1), min(round(region.left * width), width - 1)
    bottom = max(top + 1, round((region.top + region.height) * height))
    right = max(left + 1, round((region.left + region.width) * width))
    return np.ascontiguousarray(pixels[top:bottom, left:right])
