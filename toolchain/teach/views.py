"""Views of one picture: itself, and a copy as a camera that was nudged and other light would give it.

A copy stands for its picture in training and is never counted as one.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""uint8 [H, W, 3] in B, G, R order."""

PLAIN = 2
"""Views without a nudged copy: the picture, and it mirrored."""
MIRRORED = (1, 3)
"""Views that are mirrored."""
_SHIFT = 16
"""The copy lacks a strip of 1 / _SHIFT of the picture at two of its four sides."""
_GAINS = (0.75, 1.3)
"""Brightness of the copy."""


def views(frame: Frame, name: str, count: int) -> tuple[Frame, ...]:
    """The first `count` of: the picture, it mirrored, its copy, that mirrored. The name decides the copy."""
    made = (frame, _mirrored(frame)) if count > 1 else (frame,)
    if count > PLAIN:
        copy = nudged(frame, name)
        made = (*made, copy, _mirrored(copy))
    return made


def nudged(frame: Frame, name: str) -> Frame:
    """The picture without two strips beside one of its corners, darker or brighter."""
    choice = hashlib.sha256(name.encode(errors="surrogateescape")).digest()[0]
    height, width = frame.shape[:2]
    rows, columns = height // _SHIFT, width // _SHIFT
    top, left = rows * (choice & 1), columns * (choice >> 1 & 1)
    part = frame[top : height - rows + top, left : width - columns + left]
    bright = np.clip(np.floor(np.arange(256) * _GAINS[choice >> 2 & 1] + 0.5), 0, 255).astype(np.uint8)
    made: Frame = bright[part]
    return made


def _mirrored(frame: Frame) -> Frame:
    return np.ascontiguousarray(frame[:, ::-1])
