"""From the numbers of cells to boxes in pixels of the input: the formulas of `edgemeta.model.tasks.Detection`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.tasks.numbers import Float64, sigmoid, softmax

MAX_EXPONENT = 20.0
"""Exponents of a box's sides are limited to this, so that areas stay finite."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Where candidates are, one in each row; float64 [n, 2], x before y.

    place: column and row of the cell. stride: pixels from one cell to the next. anchor: width and height in pixels;
    the stride for decodings without anchors.
    """

    place: Float64
    stride: Float64
    anchor: Float64

    def __getitem__(self, rows: NDArray[np.int64]) -> "Cells":
        """The cells of some candidates."""
        return Cells(self.place[rows], self.stride[rows], self.anchor[rows])

    @staticmethod
    def joined(parts: list["Cells"]) -> "Cells":
        """The cells of several levels, one after the other."""
        return Cells(
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.stride for part in parts]),
            np.concatenate([part.anchor for part in parts]),
        )


def cells_of(level: DetectionLevel, grid: tuple[int, int], image: tuple[int, int]) -> Cells:
    """Cells of a grid of (H, W) cells over an input of (H, W) pixels: row by row, the anchors of a cell in order."""
    height, width = grid
    stride = level.stride or (image[1] / width, image[0] / height)
    anchors = np.array(level.anchors or (stride,), np.float64)
    rows, columns, numbers = (index.ravel() for index in np.indices((height, width, len(anchors))))
    place = np.stack([columns, rows], axis=1).astype(np.float64)
    return Cells(place, np.tile(np.array(stride, np.float64), (len(place), 1)), anchors[numbers])


def width_of(task: Detection) -> int:
    """Box numbers of a candidate."""
    return {"yolov8": 4 * task.bins, "cells": 0}.get(task.decoding, 4)


def decode(task: Detection, numbers: Float64, cells: Cells) -> Float64:
    """Boxes [n, 4], x0, y0, x1, y1, of numbers [n, `width_of`]."""
    if task.decoding == "cells":
        return np.concatenate([cells.place * cells.stride, (cells.place + 1) * cells.stride], axis=1)
    if task.decoding == "yolov8":
        bins = np.arange(task.bins, dtype=np.float64)
        numbers = (softmax(numbers.reshape(-1, 4, task.bins)) * bins).sum(axis=2)
    if task.decoding == "exponential":
        numbers = _power(numbers)
    if task.box_order == "yxhw":
        numbers = numbers[:, [1, 0, 3, 2]]
    if task.decoding in ("yolov8", "distances", "exponential"):
        units = cells.anchor / cells.stride
        point = cells.place + task.origin
        first, last = point - numbers[:, :2] * units, point + numbers[:, 2:] * units
        return np.concatenate([first * cells.stride, last * cells.stride], axis=1)
    centre, half = _centred(task, numbers[:, :2], numbers[:, 2:], cells)
    return np.concatenate([centre - half, centre + half], axis=1)


def _centred(task: Detection, shift: Float64, size: Float64, cells: Cells) -> tuple[Float64, Float64]:
    """Centres and half sides [n, 2] of boxes."""
    place, stride, anchor = cells.place, cells.stride, cells.anchor
    point = (place + task.origin) * stride
    match task.decoding:
        case "yolox":
            return (place + shift) * stride, _power(size) * anchor / 2
        case "yolov3":
            return (place + sigmoid(shift)) * stride, _power(size) * anchor / 2
        case "yolov5":
            return (place + 2 * sigmoid(shift) - 0.5) * stride, (2 * sigmoid(size)) ** 2 * anchor / 2
        case "fastestdet":
            return (place + np.tanh(shift)) * stride, sigmoid(size) * anchor / 2
        case "linear":
            return point + shift * anchor, size * anchor / 2
        case _:
            near, far = task.variances
            return point + near * shift * anchor, _power(far * size) * anchor / 2


def _power(exponents: Float64) -> Float64:
    power: Float64 = np.exp(np.minimum(exponents, MAX_EXPONENT))
    return power


def clipped(boxes: Float64, image: tuple[int, int]) -> Float64:
    """The parts of boxes [n, 4] inside of an image of (H, W) pixels."""
    height, width = image
    inside: Float64 = np.minimum(np.maximum(boxes, 0.0), np.array([width, height, width, height], np.float64))
    return inside


def has_area(boxes: Float64) -> NDArray[np.bool_]:
    """Which boxes [n, 4] have an area above 0."""
    found: NDArray[np.bool_] = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return found
