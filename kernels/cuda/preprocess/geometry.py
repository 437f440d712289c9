"""Where camera frames lie in the device's memory, and how the images of a launch are made of them.

A frame's memory holds the smallest box of its pixels that contains all crops: rows of `pitch` bytes, a multiple of 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.model.preprocess import ImageInput, Rectangle, Span, content_rectangle, coverage, crop_rectangle

ALIGNMENT = 16
"""Bytes: frames begin at multiples."""
_MOST_UNITS = 1 << 31
_MOST_ROW_UNITS = 1 << 24  # 255 times as many are below 2**32
_MOST_NARROW_AREA = ((1 << 32) - 1) // 511
_WORD = 1 << 32


@dataclass(frozen=True)
class _Axis:
    """One axis of an image: its spans int32 [pixels, 4] (`Span` in body.cuh) and the units of a pixel of the frame.

    total: units of a pixel of the image.
    """

    spans: NDArray[np.int32]
    length: int
    total: int


class FrameLayout:
    """Frames of one shape, [H, W, 3] in B, G, R order or gray [H, W], whose regions become images of a model's input.

    box: the part of a frame that is copied to the device. nbytes: size there. key: equal for equal layouts. Raises
    FrameError for a frame whose units (`coverage`) of an output pixel are too many on an axis.
    """

    def __init__(self, image_input: ImageInput, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> None:
        self.frame_shape = frame_shape
        self.key = (FrameLayout, frame_shape, tuple(regions))
        self.images = len(regions)
        self.channels = frame_shape[2] if len(frame_shape) == 3 else 1
        self._target = image_input.input.shape[0], image_input.input.shape[1]
        self._preprocessing = image_input.preprocessing
        self._crops = [self._crop_of(region) for region in regions]
        self.box = _around(self._crops)
        self.pitch = -(-self.box.width * self.channels // 4) * 4
        self.nbytes = -(-self.box.height * self.pitch // ALIGNMENT) * ALIGNMENT
        self._contents = [
            content_rectangle((crop.height, crop.width), self._target, self._preprocessing) for crop in self._crops
        ]
        self._axes = [self._axes_of(*each) for each in zip(self._crops, self._contents, strict=True)]

    def copy(self, frame: NDArray[np.uint8], memory: NDArray[np.uint8]) -> None:
        """Copy the box of a frame, whose rows and columns may be strided, to `memory`, uint8 [nbytes]."""
        box, row_bytes = self.box, self.box.width * self.channels
        part = frame[box.top : box.top + box.height, box.left : box.left + box.width]
        rows = memory[: box.height * self.pitch].reshape(box.height, self.pitch)[:, :row_bytes]
        np.copyto(rows.reshape(part.shape) if self.pitch == row_bytes else _split(rows, part.shape), part)

    def _crop_of(self, region: Rectangle) -> Rectangle:
        crop = crop_rectangle((region.height, region.width), self._target, self._preprocessing.crop)
        return Rectangle(region.top + crop.top, region.left + crop.left, crop.height, crop.width)

    def _axes_of(self, crop: Rectangle, content: Rectangle) -> tuple[_Axis, _Axis]:
        rows, columns = _axis(crop.height, content.height), _axis(crop.width, content.width)
        if rows.total >= _MOST_ROW_UNITS or columns.total >= _MOST_ROW_UNITS:
            size = f"{self.frame_shape[1]} x {self.frame_shape[0]}"
            raise FrameError(f"a frame of {size} pixels is too large to be preprocessed on the device")
        return rows, columns

    def geometries(self, offset: int, spans: list[NDArray[np.int32]]) -> list[list[int]]:
        """A row for each image (`Geometry` in body.cuh) of a frame at `offset`; adds to the spans [pixels, 4]."""
        first = sum(map(len, spans))
        made = []
        for crop, content, (rows, columns) in zip(self._crops, self._contents, self._axes, strict=True):
            begin = (crop.top - self.box.top) * self.pitch + (crop.left - self.box.left) * self.channels
            area = rows.total * columns.total
            made.append(
                [
                    *(offset + begin, self.pitch, self.channels, int(area > _MOST_NARROW_AREA)),
                    *(first, first + len(rows.spans), rows.length, columns.length),
                    *(content.top, content.left, content.height, content.width),
                    *(area % _WORD, area // _WORD, int(np.float32(1 / (2 * area)).view(np.int32)), 0),
                ]
            )
            spans += [rows.spans, columns.spans]
            first += len(rows.spans) + len(columns.spans)
        return made


@dataclass(frozen=True, eq=False)
class Tables:
    """What a launch reads beside frames: `Geometry` int32 [images, 16] and `Span` int32 [spans, 4].

    offsets: first byte of each frame. nbytes: of all frames.
    """

    geometries: NDArray[np.int32]
    spans: NDArray[np.int32]
    offsets: tuple[int, ...]
    nbytes: int


def tables_of(layouts: Sequence[FrameLayout]) -> Tables:
    """The tables of frames that lie one after the other."""
    spans: list[NDArray[np.int32]] = []
    geometries: list[list[int]] = []
    offsets, offset = [], 0
    for layout in layouts:
        geometries += layout.geometries(offset, spans)
        offsets.append(offset)
        offset += layout.nbytes
    if offset > _MOST_UNITS:
        raise FrameError(f"{len(layouts)} frames of {offset >> 20} MB are too large to be preprocessed together")
    return Tables(_as_int32(geometries), np.concatenate(spans), tuple(offsets), offset)


def _axis(source: int, target: int) -> _Axis:
    spans = coverage(source, target)
    total = int(spans[0].weights.sum())
    length = total * target // source  # target / gcd, as total is source / gcd
    return _Axis(_as_int32([_row(span, length) for span in spans]), length, total)


def _row(span: Span, length: int) -> list[int]:
    first, last = int(span.weights[0]), int(span.weights[-1])
    return [span.start, len(span.weights), first - length, last - length if len(span.weights) > 1 else 0]


def _around(crops: Sequence[Rectangle]) -> Rectangle:
    top, left = min(crop.top for crop in crops), min(crop.left for crop in crops)
    bottom = max(crop.top + crop.height for crop in crops)
    right = max(crop.left + crop.width for crop in crops)
    return Rectangle(top, left, bottom - top, right - left)


def _split(rows: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """A view of padded rows [H, bytes] as pixels of a shape."""
    strides = (rows.strides[0], shape[2], 1) if len(shape) == 3 else rows.strides
    return np.lib.stride_tricks.as_strided(rows, shape, strides)


def _as_int32(values: Any) -> NDArray[np.int32]:
    return np.array(values, np.int64).astype(np.uint32, casting="unsafe").view(np.int32)
