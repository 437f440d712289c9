"""A small detection model with hand-made weights: it finds coloured squares, and what it finds is known beforehand.

The picture, stretched to 128x96, is averaged over cells of 16x16 pixels, a grid of 8 columns and 6 rows. A cell of pure
red, green or blue is an object whose box is the cell; one that is half covered, grey, black or white is none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.file import save
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import AveragePool, Conv, Multiplier, TensorType
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Detection, DetectionLevel, ObjectMasks, ObjectPoints
from edgemeta.model.weights import FixedWeights

COLUMNS, ROWS, SIDE = 8, 6, 16
COLOURS = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)}
"""Colours that are found, BGR."""
BACKGROUND = 40
"""Grey of a picture without squares."""

Squares: TypeAlias = Mapping[tuple[int, int], str]
"""Colour of each coloured cell (column, row)."""


def square_detector(
    labels: tuple[str, ...] = tuple(COLOURS), extras: ObjectPoints | ObjectMasks | None = None
) -> Model:
    """The model, proved; labels: those of red, green and blue, then any number that are never found.

    extras: "xys" points, of score sigmoid(2), at a quarter of the cell's height, from its left to its right side; or
    masks that are the red cells.
    """
    grid = (ROWS, COLUMNS)
    pixels = TensorType((ROWS * SIDE, COLUMNS * SIDE, 3), signed=False, scale=1 / 256)
    means = TensorType((*grid, 3), signed=False, scale=1 / 256)
    mean = Multiplier(np.array([1], np.int32), np.array([8], np.uint8), 0, 255)  # sum of 256 pixels / 2**8
    # logit of a colour: 16 v - 16 (sum of the other two) - 8, v in 0 .. 255/256
    weights = np.zeros((len(labels), 1, 1, 3), np.int8)
    weights[:3, 0, 0] = 32 * np.eye(3) - 16
    biases = np.full(len(labels), -20 * 256, np.int32)
    biases[:3] = -8 * 256
    box = np.array([128, 128, 0, 0], np.int32)  # the middle of the cell, its own size
    layers = [
        _by_cell("classes", weights, biases),
        _by_cell("boxes", np.zeros((4, 1, 1, 3), np.int8), box),
    ]
    if isinstance(extras, ObjectPoints):
        count = len(extras.names)
        along = np.linspace(0, 255, count).astype(np.int32)
        places = np.stack([along, np.full(count, 64, np.int32), np.full(count, 512, np.int32)], axis=1)
        layers.append(_by_cell("extras", np.zeros((3 * count, 1, 1, 3), np.int8), places.ravel()))
    elif extras is not None:
        layers.append(_by_cell("extras", np.zeros((1, 1, 1, 3), np.int8), np.array([256], np.int32)))
        layers.append(_by_cell(extras.prototypes, weights[:1], biases[:1]))
    level = DetectionLevel("boxes", "classes", extras=None if extras is None else "extras")
    model = Model(
        "squares",
        pixels,
        (AveragePool("cells", "input", means, kernel=(SIDE, SIDE), stride=(SIDE, SIDE), requantize=mean), *layers),
        tuple(layer.name for layer in layers),
        Detection(labels, "yolox", (level,), extras=extras),
        Preprocessing("full", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis]),
    )
    prove(model)
    return model


def _by_cell(name: str, weights: NDArray[np.int8], biases: NDArray[np.int32]) -> Conv:
    kind = TensorType((ROWS, COLUMNS, len(weights)), bits=32, scale=1 / 256)
    return Conv(name, "cells", kind, weights=FixedWeights(weights, 8, np.array([1.0])), bias=biases)


def save_square_detector(
    path: Path, labels: tuple[str, ...] = tuple(COLOURS), extras: ObjectPoints | ObjectMasks | None = None
) -> Path:
    """Write the model's file and return its path."""
    save(square_detector(labels, extras), path)
    return path


def squares_picture(squares: Squares, side: int = 2 * SIDE) -> NDArray[np.uint8]:
    """A picture with these squares, BGR; side: of a cell in pixels."""
    picture = np.full((ROWS * side, COLUMNS * side, 3), BACKGROUND, np.uint8)
    for (column, row), colour in squares.items():
        picture[row * side : (row + 1) * side, column * side : (column + 1) * side] = COLOURS[colour]
    return picture


def write_squares(path: Path, squares: Squares, side: int = 2 * SIDE) -> Path:
    """Write such a picture and return its path."""
    # another name first: a camera may read the file at any time
    part = path.with_name(f"part-{path.name}")
    assert cv2.imwrite(str(part), squares_picture(squares, side))
    return part.rename(path)
