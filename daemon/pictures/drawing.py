"""Boxes drawn into a picture, and the part of a picture that an object takes."""

from collections.abc import Iterable

import cv2

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.messages.records import Box, Fields

COLOUR, OUTLINE = (64, 220, 64), (0, 0, 0)
"""BGR. Text has an outline, so that it can be read on any ground."""
BORDER = 0.15
"""Part of an object's longer side that its picture shows around it."""


def with_boxes(pixels: Pixels, objects: Iterable[Fields]) -> Pixels:
    """Return a copy with the box of each object, its label and score. What a font lacks is drawn as `?`."""
    drawn = pixels.copy()
    height, width = drawn.shape[:2]
    size = max(0.6, max(height, width) / 960)
    thick = max(1, round(2 * size))
    for found in objects:
        x0, y0, x1, y1 = found["box_relative"]
        left, top, right, bottom = _whole((x0 * width, y0 * height, x1 * width, y1 * height), height, width)
        cv2.rectangle(drawn, (left, top), (max(left, right - 1), max(top, bottom - 1)), COLOUR, thick)
        text = f"{found['label']} {100 * found['score']:.0f}%".encode("ascii", "replace").decode()
        above = top - 6 if top > 24 * size else bottom - 6
        for colour, width_of_line in ((OUTLINE, thick + 2), (COLOUR, thick)):
            where, font = (left + 3, above), cv2.FONT_HERSHEY_SIMPLEX
            cv2.putText(drawn, text, where, font, 0.7 * size, colour, width_of_line, cv2.LINE_AA)
    return drawn


def crop_of(pixels: Pixels, box: Box, shape: tuple[int, ...]) -> Pixels:
    """Return a copy of an object's part of a picture, with a border where the picture has one.

    box: in pixels of a picture of this shape [H, W, ...], which may be another one of the same view.
    """
    height, width = pixels.shape[:2]
    y, x = height / shape[0], width / shape[1]
    x0, y0, x1, y1 = box
    left, top, right, bottom = _whole((x0 * x, y0 * y, x1 * x, y1 * y), height, width)
    border = round(BORDER * max(right - left, bottom - top))
    return pixels[max(0, top - border) : bottom + border, max(0, left - border) : right + border].copy()


def _whole(box: Box, height: int, width: int) -> tuple[int, int, int, int]:
    """Return a box in whole pixels inside a picture, never empty."""
    x0, y0, x1, y1 = box
    left, top = min(max(0, int(x0)), width - 1), min(max(0, int(y0)), height - 1)
    return left, top, max(left + 1, min(width, round(x1))), max(top + 1, min(height, round(y1)))
