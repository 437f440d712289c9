"""Draws a picture with the boxes of its objects into few pixels."""

import cv2
import numpy as np

from edgemeta.cli.demo.pixels import DemoPicture
from edgemeta.daemon.capture.source import Pixels
from edgemeta.model.preprocess import resize_area

COLOURS = ((80, 220, 100), (255, 150, 60), (90, 160, 255), (240, 90, 200), (250, 220, 70), (80, 220, 220))
"""RGB, for labels in turn."""


def colour_of(label: str) -> tuple[int, int, int]:
    """Return the colour of a label, always the same."""
    return COLOURS[sum(map(ord, label)) % len(COLOURS)]


def with_boxes(picture: DemoPicture, width: int, height: int) -> Pixels:
    """Return the whole picture, RGB, as large as fits into width x height pixels, an even number high, with its boxes.

    The outline of a box is one pixel wide and lies on the pixels of its edges; worse objects are drawn first.
    """
    scale = min(width / picture.pixels.shape[1], height / picture.pixels.shape[0])
    wide = max(1, round(scale * picture.pixels.shape[1]))
    high = max(2, 2 * round(scale * picture.pixels.shape[0] / 2))
    drawn = cv2.cvtColor(resize_area(picture.pixels, high, wide), cv2.COLOR_BGR2RGB)
    for each in reversed(picture.objects):
        left, top, right, bottom = each.box_relative
        corner = int(left * wide), int(top * high)
        opposite = max(corner[0], round(right * wide) - 1), max(corner[1], round(bottom * high) - 1)
        cv2.rectangle(drawn, corner, opposite, colour_of(each.label), 1)
    return np.asarray(drawn, np.uint8)
