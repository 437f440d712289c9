"""From a camera frame to the input tensor, in exact integers: crop, area resize, colour, fill, table.

Every other implementation must equal `preprocess` bit for bit; it may take the geometry from `crop_rectangle`,
`content_rectangle` and `coverage`. `placement` maps boxes back from the input to the frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing, channels_of
from edgemeta.model.layers import TensorType

GRAY_FROM_BGR = (1868, 9617, 4899)
"""Weights of blue, green and red in gray, times 2**14; their sum is 2**14 (ITU-R BT.601)."""

Box: TypeAlias = tuple[float, float, float, float]
"""x0, y0, x1, y1: left, top, right and bottom side, in pixels; pixel i of an axis lies between i and i + 1."""


class ImageInput(Protocol):
    """What a frame becomes; a Model says it."""

    @property
    def input(self) -> TensorType:
        """The type of the image tensor."""
        ...

    @property
    def preprocessing(self) -> Preprocessing:
        """How a frame becomes it."""
        ...


@dataclass(frozen=True)
class Rectangle:
    """A region of a frame or of an input, in pixels."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class Placement:
    """Where the pixels of the input tensor lie in the frame: frame = input * scale + offset, on each axis, in pixels.

    frame_height, frame_width: size of the frame, in pixels.
    """

    scale_x: float
    scale_y: float
    offset_x: float
    offset_y: float
    frame_height: int
    frame_width: int

    def to_frame(self, box: Box) -> Box:
        """Map a box of the input to the frame, and clip it to the frame; a box outside becomes empty at its edge."""
        x0, y0, x1, y1 = box
        return (
            _clipped(x0 * self.scale_x + self.offset_x, self.frame_width),
            _clipped(y0 * self.scale_y + self.offset_y, self.frame_height),
            _clipped(x1 * self.scale_x + self.offset_x, self.frame_width),
            _clipped(y1 * self.scale_y + self.offset_y, self.frame_height),
        )


@dataclass(frozen=True, eq=False)
class Span:
    """The source pixels start, start + 1, ... under one output pixel of an axis, and how much of each it covers.

    weights int64 [pixels], each > 0, in the units of `coverage`; not writable.
    """

    start: int
    weights: NDArray[np.int64]


def crop_rectangle(
    frame: tuple[int, int], target: tuple[int, int], crop: Literal["center", "full", "letterbox"]
) -> Rectangle:
    """Region of a frame (H, W) that becomes the target (h, w).

    "full" and "letterbox" take the whole frame. "center" takes the largest centred region of the target's aspect ratio,
    at least one pixel wide and high: where H w < W h it is H rows of max(1, H w // h) columns, otherwise
    max(1, W h // w) rows of W columns; an odd rest leaves the greater margin right or below.
    """
    frame_height, frame_width = frame
    height, width = target
    if crop != "center":
        return Rectangle(0, 0, frame_height, frame_width)
    if frame_width * height > frame_height * width:
        crop_height, crop_width = frame_height, max(1, frame_height * width // height)
    else:
        crop_height, crop_width = max(1, frame_width * height // width), frame_width
    return Rectangle((frame_height - crop_height) // 2, (frame_width - crop_width) // 2, crop_height, crop_width)


def content_rectangle(frame: tuple[int, int], target: tuple[int, int], preprocessing: Preprocessing) -> Rectangle:
    """Region of the target (h, w) that shows a frame (H, W): the whole target, or what `letterbox` says."""
    if preprocessing.crop != "letterbox":
        return Rectangle(0, 0, *target)
    return letterbox(frame, target, preprocessing.align)


def letterbox(
    frame: tuple[int, int], target: tuple[int, int], align: Literal["center", "corner"] = "center"
) -> Rectangle:
    """Region of the target (h, w) that shows a frame (H, W) with its aspect ratio.

    It is as large as the target on one axis: where H w < W h it is w columns of max(1, floor(H w / W + 1/2)) rows,
    otherwise h rows of max(1, floor(W h / H + 1/2)) columns. It begins at (0, 0) with `align` "corner"; with "center"
    an odd rest leaves the greater margin right or below.
    """
    frame_height, frame_width = frame
    height, width = target
    if frame_width * height > frame_height * width:
        rows, columns = max(1, (2 * frame_height * width + frame_width) // (2 * frame_width)), width
    else:
        rows, columns = height, max(1, (2 * frame_width * height + frame_height) // (2 * frame_height))
    if align == "corner":
        return Rectangle(0, 0, rows, columns)
    return Rectangle((height - rows) // 2, (width - columns) // 2, rows, columns)


def placement(preprocessing: Preprocessing, target: TensorType, frame_shape: tuple[int, ...]) -> Placement:
    """Where the input tensor of type `target` lies in a frame of shape [H, W, 3] or [H, W]."""
    size, input_size = (frame_shape[0], frame_shape[1]), (target.shape[0], target.shape[1])
    source = crop_rectangle(size, input_size, preprocessing.crop)
    content = content_rectangle(size, input_size, preprocessing)
    scale_x, scale_y = source.width / content.width, source.height / content.height
    return Placement(
        scale_x=scale_x,
        scale_y=scale_y,
        offset_x=source.left - content.left * scale_x,
        offset_y=source.top - content.top * scale_y,
        frame_height=frame_shape[0],
        frame_width=frame_shape[1],
    )


@lru_cache(maxsize=256)
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
        weights = borders[1:] - borders[:-1]
        weights.flags.writeable = False  # the spans are kept for the next frame
        spans.append(Span(start, weights))
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


def in_channels(pixels: NDArray[np.uint8], colour: str) -> NDArray[np.uint8]:
    """Convert uint8 [..., 3] in B, G, R order or gray [..., 1] to the channels [..., C] of a `colour`.

    Gray of three channels is (1868 B + 9617 G + 4899 R + 2**13) >> 14; gray pixels are used for red, green and blue;
    alpha is 255.
    """
    blue, green, red = (pixels[..., min(i, pixels.shape[-1] - 1)] for i in range(3))
    gray = blue
    if pixels.shape[-1] == 3:
        gray = ((pixels @ np.array(GRAY_FROM_BGR) + 2**13) >> 14).astype(np.uint8)
    planes = {"r": red, "g": green, "b": blue, "y": gray, "a": np.full_like(blue, 255)}
    return np.stack([planes[letter] for letter in channels_of(colour)], axis=-1)


def look_up(table: NDArray[Any], pixels: NDArray[np.uint8]) -> NDArray[Any]:
    """The entries of a table [C, 256] or [1, 256] for pixels uint8 [..., C]."""
    return table[np.arange(len(table)), pixels]


def preprocess(frame: NDArray[Any], target: TensorType, preprocessing: Preprocessing) -> NDArray[Any]:
    """Make the input tensor [H, W, C] of type `target`, C-contiguous, from one frame.

    frame: uint8 [H, W, 3] in B, G, R order (OpenCV's) or gray uint8 [H, W]. Steps: crop, resize, colour conversion,
    fill, table lookup. Raises FrameError for an empty frame, another dtype or another shape.
    """
    pixels = _three_axes(frame)
    size, input_size = pixels.shape[:2], target.shape[:2]
    region = crop_rectangle(size, input_size, preprocessing.crop)
    content = content_rectangle(size, input_size, preprocessing)
    cropped = pixels[region.top : region.top + region.height, region.left : region.left + region.width]
    image = np.empty(target.shape, np.uint8)
    image[:] = np.array(preprocessing.fill, np.uint8)
    image[content.top : content.top + content.height, content.left : content.left + content.width] = in_channels(
        resize_area(cropped, content.height, content.width), preprocessing.colour
    )
    return np.ascontiguousarray(look_up(preprocessing.table, image))


def _three_axes(frame: NDArray[Any]) -> NDArray[np.uint8]:
    if frame.dtype != np.uint8:
        raise FrameError(f"a frame has pixels of type {frame.dtype}, expected uint8")
    if frame.ndim not in (2, 3) or (frame.ndim == 3 and frame.shape[2] != 3):
        raise FrameError(f"a frame has shape {list(frame.shape)}, expected [H, W, 3] or [H, W]")
    if frame.size == 0:
        raise FrameError(f"a frame has shape {list(frame.shape)}, expected at least one pixel")
    return frame if frame.ndim == 3 else frame[:, :, np.newaxis]


def pixel_table(
    kind: TensorType, mean: Sequence[float], scale: Sequence[float]
) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1 or C, 256]: the integer of type `kind` nearest to (pixel - mean) / scale, half up, for each channel.

    mean, scale: one number, or one for each channel.
    """
    count = max(len(mean), len(scale))
    means, scales = (np.resize(np.array(each, np.float64), count)[:, np.newaxis] for each in (mean, scale))
    real = (np.arange(256) - means) / scales
    nearest = np.floor(real / kind.scale + 0.5) + kind.zero_point
    integers: NDArray[np.int8] | NDArray[np.uint8] = np.clip(nearest, kind.lo, kind.hi).astype(kind.dtype)
    return integers


def _clipped(place: float, side: int) -> float:
    return float(min(max(place, 0.0), side))


def _weighted_sums(values: NDArray[Any], spans: tuple[Span, ...]) -> NDArray[np.int64]:
    """Sum of weight times value along the first axis, int64 [len(spans), ...]."""
    sums = [np.tensordot(s.weights, values[s.start : s.start + len(s.weights)].astype(np.int64), 1) for s in spans]
    return np.stack(sums)
