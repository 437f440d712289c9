"""Views of pictures with boxes for a training: mosaics of four, scaled, mirrored, in other colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.boxes.pictures import Pixels, ReadPicture, scaled
from edgemeta.toolchain.train.boxes.network import STRIDES, Size

FILL = 128
"""Pixel beside pictures: the network sees it as 0, as in the padding of its convolutions."""
_LEAST_SHARE, _LEAST_SIDE = 0.3, 3.0
"""Boxes of which less remains, in area or in pixels, become difficult."""


@dataclass(frozen=True)
class BoxViewSettings:
    """How views differ from pictures.

    mosaic: share of views that are made of four pictures. scale: least and greatest size of a picture in a view of its
    own, 1 where it just fits into the view; in_mosaic: of one in a mosaic. stretch: greatest factor between the sides.
    brightness, contrast, saturation: greatest relative change. dark: share of pictures that become much darker; gray:
    share that lose their colours, as cameras do at night.
    """

    mosaic: float = 0.5
    scale: tuple[float, float] = (0.5, 1.5)
    in_mosaic: tuple[float, float] = (0.35, 1.2)
    stretch: float = 1.2
    brightness: float = 0.3
    contrast: float = 0.3
    saturation: float = 0.5
    dark: float = 0.05
    gray: float = 0.08


@dataclass(frozen=True, eq=False)
class BoxView:
    """One view.

    pixels: uint8 [H, W, 3]. boxes, classes: the objects to find. known: bool [cells, labels], of all grids one after
    the other, row by row: whether a cell without an object of the label is to say so.
    """

    pixels: Pixels
    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    known: NDArray[np.bool_]


def draw_view(
    pictures: Sequence[ReadPicture], number: int, size: Size, settings: BoxViewSettings, rng: np.random.Generator
) -> BoxView:
    """A view of picture `number`, alone or in a mosaic with three others by chance."""
    height, width = size
    canvas = np.full((height, width, 3), FILL, np.uint8)
    known = np.ones((len(cells(size)), len(pictures[number].known)), np.bool_)
    boxes, classes = [], []
    if rng.random() < settings.mosaic:
        column, row = (rng.uniform(0.3, 0.7, 2) * (width, height)).astype(np.int64).tolist()
        numbers = [number, *rng.integers(len(pictures), size=3).tolist()]
        rng.shuffle(numbers)
        frames = [(0, 0, column, row), (column, 0, width, row), (0, row, column, height), (column, row, width, height)]
        placed = [(pictures[each], frame, settings.in_mosaic) for each, frame in zip(numbers, frames, strict=True)]
    else:
        placed = [(pictures[number], (0, 0, width, height), settings.scale)]
    for picture, frame, scale in placed:
        found = _place(canvas, known, picture, frame, rng.uniform(*scale), settings, rng)
        boxes.append(found[0])
        classes.append(found[1])
    return BoxView(canvas, np.concatenate(boxes), np.concatenate(classes), known)


def _place(
    canvas: Pixels,
    known: NDArray[np.bool_],
    picture: ReadPicture,
    frame: tuple[int, int, int, int],
    scale: float,
    settings: BoxViewSettings,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw a picture into a frame x0, y0, x1, y1 of the canvas; gives the boxes and classes to find there."""
    size: Size = canvas.shape[:2]
    height, width = picture.pixels.shape[:2]
    factor = scale * min(size[0] / height, size[1] / width)
    stretch = settings.stretch ** rng.uniform(-0.5, 0.5)
    rows, columns = max(8, round(height * factor / stretch)), max(8, round(width * factor * stretch))
    x0, y0, x1, y1 = frame
    left = _offset(x1 - x0, columns, rng)
    top = _offset(y1 - y0, rows, rng)
    first = max(0, -left), max(0, -top)
    last = min(columns, x1 - x0 - left), min(rows, y1 - y0 - top)
    # only the part that is shown is scaled
    cut = [round(v * a / b) for v, a, b in zip((*first, *last), (width, height) * 2, (columns, rows) * 2, strict=True)]
    cut = [min(cut[0], width - 1), min(cut[1], height - 1), max(cut[2], cut[0] + 1), max(cut[3], cut[1] + 1)]
    shown = picture.pixels[cut[1] : cut[3], cut[0] : cut[2]]
    shown = scaled(shown, last[0] - first[0], last[1] - first[1])
    flip = rng.random() < 0.5
    if flip:
        shown = shown[:, ::-1]
    left, top = x0 + left, y0 + top
    area = left + first[0], top + first[1], left + last[0], top + last[1]
    canvas[area[1] : area[3], area[0] : area[2]] = coloured(shown, settings, rng)
    boxes = picture.boxes * np.array([columns / width, rows / height] * 2, np.float32)
    boxes += np.array([left, top] * 2, np.float32)
    if flip:
        boxes[:, 0::2] = area[0] + area[2] - boxes[:, 2::-2]
    clipped = np.clip(boxes, np.array(area[:2] * 2, np.float32), np.array(area[2:] * 2, np.float32))
    sides = clipped[:, 2:] - clipped[:, :2]
    visible = (sides > 0).all(1)
    share = sides.prod(1) / (boxes[:, 2:] - boxes[:, :2]).prod(1)
    plain = visible & (share >= _LEAST_SHARE) & (sides.min(1, initial=max(size)) >= _LEAST_SIDE) & ~picture.difficult
    _mark_unknown(known, picture.known, size, area, clipped, picture.classes, visible & ~plain)
    return clipped[plain], picture.classes[plain]


def _offset(room: int, taken: int, rng: np.random.Generator) -> int:
    """Where a picture of `taken` pixels begins in a frame of `room`: it shows as much as it can."""
    low, high = sorted((0, room - taken))
    return int(rng.integers(low, high + 1))


def _mark_unknown(
    known: NDArray[np.bool_],
    annotated: NDArray[np.bool_],
    size: Size,
    area: tuple[int, int, int, int],
    boxes: NDArray[np.float32],
    classes: NDArray[np.int64],
    unsure: NDArray[np.bool_],
) -> None:
    """Where a picture is shown, cells know only its annotated labels, and near a doubtful box not its label."""
    x, y, stride = cells(size).T
    inside = (x >= area[0]) & (x < area[2]) & (y >= area[1]) & (y < area[3])
    known[inside] &= annotated
    for place in np.flatnonzero(unsure).tolist():
        x0, y0, x1, y1 = boxes[place].tolist()
        near = (x > x0 - stride / 2) & (x < x1 + stride / 2) & (y > y0 - stride / 2) & (y < y1 + stride / 2)
        known[near, classes[place]] = False


@cache
def cells(size: Size) -> NDArray[np.float32]:
    """Middle x, y and stride in pixels of all cells of an image of `size`: float32 [cells, 3]."""
    grids = []
    for stride in STRIDES:
        rows, columns = np.mgrid[: size[0] // stride, : size[1] // stride].reshape(2, -1)
        grids.append(np.stack([(columns + 0.5) * stride, (rows + 0.5) * stride, np.full(len(rows), stride)], 1))
    return np.concatenate(grids).astype(np.float32)


def coloured(pixels: Pixels, settings: BoxViewSettings, rng: np.random.Generator) -> Pixels:
    """A picture, uint8 [H, W, 3], in other light and colours."""
    light, contrast, saturation = 1 + rng.uniform(-1, 1, 3) * (
        settings.brightness,
        settings.contrast,
        settings.saturation,
    )
    dark, gray, tint = rng.random() < settings.dark, rng.random() < settings.gray, rng.uniform(0.93, 1.07, 3)
    if dark:
        light *= rng.uniform(0.25, 0.6)
    if gray:
        saturation, tint = 0.0, np.ones(3)
    levels = (np.arange(256, dtype=np.float32)[:, np.newaxis] - 128) * contrast + 128
    table = np.clip(levels * light * tint, 0, 255).astype(np.uint8)[np.newaxis]
    changed = cv2.LUT(np.ascontiguousarray(pixels), table)
    plain = cv2.cvtColor(cv2.cvtColor(changed, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    result: Pixels = cv2.addWeighted(changed, saturation, plain, 1 - saturation, 0)  # type: ignore[assignment]
    return result
