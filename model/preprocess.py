"""From a camera frame to the input tensor, in exact integers: crop, area resize, colour, table.

Every other implementation must equal `preprocess` bit for bit; it may take the geometry from `crop_rectangle` and
`coverage`.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType

GRAY_FROM_BGR = (1868, 9617, 4899)
"""Weights of blue, green and red in gray, times 2**14; their sum is 2**14 (ITU-R BT.601)."""


@dataclass(frozen=True)
class Rectangle:
    """A region of a frame, in pixels."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True, eq=False)
class Span:
    """The source pixels start, start + 1, ... under one output pixel of an axis, and how much of each it covers.

    weights int64 [pixels], each > 0, in the units of `coverage`.
    """

    start: int
    weights: NDArray[np.int64]


def crop_rectangle(frame: tuple[int, int], target: tuple[int, int], crop: Literal["center", "full"]) -> Rectangle:
    """Region of a frame (H, W) that becomes the target (h, w).

    "full" is the whole frame. "center" is the largest centred region of the target's aspect ratio, at least one pixel
    wide and high: where H w < W h it is H rows of max(1, H w // h) columns, otherwise max(1, W h // w) rows of W
    columns; an odd rest leaves the greater margin right or below.
    """
    frame_height, frame_width = frame
    height, width = target
    if crop == "full":
        return Rectangle(0, 0, frame_height, frame_width)
    if frame_width * height > frame_height * width:
        crop_height, crop_width = frame_height, max(1, frame_height * width // height)
    else:
        crop_height, crop_width = max(1, frame_width * height // width), frame_width
    return Rectangle((frame_height - crop_height) // 2, (frame_width - crop_width) // 2, crop_height, crop_width)


def coverage(source: int, target: int) -> tuple[Span, ...]:
    """How `target` output pixels of equal length cover `source` pixels along one axis, in integer units.

    With g = gcd(source, target) a source pixel is target / g units long and an output pixel source / g, so that both
    axes have equal length and every border is an integer. A weight is the length of an overlap; the weights of an
    output pixel sum to source / g. Enlarging uses the same formula.
    """
    divisor = gcd(source, target)
    source_length, target_length = target // divisor, source // divisor
    spans = []
    for i in range(target):
        begin, end = i * target_length, (i + 1) * target_length
        start, stop = begin // source_length, -(-end // source_length)
        borders = np.clip(np.arange(start, stop + 1, dtype=np.int64) * source_length, begin, end)
        spans.append(Span(start, borders[1:] - borders[:-1]))
    return tuple(spans)


def resize_area(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize uint8 [H, W, C] to [height, width, C] by area, each pixel rounded half up.

    With the weights wy, wx of `coverage`: S = sum of wy wx p, A = (H / gcd(H, height)) (W / gcd(W, width)) and the
    pixel is floor(S / A + 1/2) = (2 S + A) // (2 A).
    """
    source_height, source_width = pixels.shape[:2]
    if (source_height, source_width) == (height, width):
        return pixels
    rows = _weighted_sums(pixels, coverage(source_height, height))
    sums = _weighted_sums(rows.swapaxes(0, 1), coverage(source_width, width)).swapaxes(0, 1)
    area = (source_height // gcd(source_height, height)) * (source_width // gcd(source_width, width))
    rounded: NDArray[np.uint8] = ((2 * sums + area) // (2 * area)).astype(np.uint8)
    return rounded


def preprocess(frame: NDArray[Any], target: TensorType, preprocessing: Preprocessing) -> NDArray[Any]:
    """Make the input tensor [H, W, C] of type `target`, C-contiguous, from one frame.

    frame: uint8 [H, W, 3] in B, G, R order (OpenCV's) or gray uint8 [H, W]. Steps: crop, resize, colour conversion,
    table lookup. Gray of a colour frame is (1868 B + 9617 G + 4899 R + 2**13) >> 14 after the resize; a gray frame is
    used for all three colours. Raises FrameError for an empty frame, another dtype or another shape.
    """
    pixels = _three_axes(frame)
    height, width, _ = target.shape
    region = crop_rectangle(pixels.shape[:2], (height, width), preprocessing.crop)
    cropped = pixels[region.top : region.top + region.height, region.left : region.left + region.width]
    coloured = _convert_colour(resize_area(cropped, height, width), preprocessing.colour)
    channel_rows = np.arange(coloured.shape[2]) if len(preprocessing.table) > 1 else 0
    return np.ascontiguousarray(preprocessing.table[channel_rows, coloured])


def _three_axes(frame: NDArray[Any]) -> NDArray[np.uint8]:
    if frame.dtype != np.uint8:
        raise FrameError(f"a frame has pixels of type {frame.dtype}, expected uint8")
    if frame.ndim not in (2, 3) or (frame.ndim == 3 and frame.shape[2] != 3):
        raise FrameError(f"a frame has shape {list(frame.shape)}, expected [H, W, 3] or [H, W]")
    if frame.size == 0:
        raise FrameError(f"a frame has shape {list(frame.shape)}, expected at least one pixel")
    return frame if frame.ndim == 3 else frame[:, :, np.newaxis]


def _weighted_sums(values: NDArray[Any], spans: tuple[Span, ...]) -> NDArray[np.int64]:
    """Sum of weight times value along the first axis, int64 [len(spans), ...]."""
    sums = [np.tensordot(s.weights, values[s.start : s.start + len(s.weights)].astype(np.int64), 1) for s in spans]
    return np.stack(sums)


def _convert_colour(pixels: NDArray[np.uint8], colour: Literal["rgb", "bgr", "gray"]) -> NDArray[np.uint8]:
    """[H, W, 3] in B, G, R order or [H, W, 1] gray to [H, W, 3] or, for "gray", [H, W, 1]."""
    is_gray = pixels.shape[2] == 1
    if colour == "gray":
        if is_gray:
            return pixels
        gray: NDArray[np.uint8] = ((pixels @ np.array(GRAY_FROM_BGR) + 2**13) >> 14).astype(np.uint8)
        return gray[:, :, np.newaxis]
    if is_gray:
        return np.repeat(pixels, 3, axis=2)
    return pixels[:, :, ::-1] if colour == "rgb" else pixels
