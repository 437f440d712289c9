"""Scenes with several things and their boxes, for training and measuring detectors: a function of seed and number.

Before a background stand one to six things, each large or small, turned, flipped, brighter or darker, cut off by the
frame or partly hidden by others and by strips and spots without a name. Light, blur and grain differ from scene to
scene. Each seed paints its own things and backgrounds, so scenes of different seeds share no picture of a thing.
"""

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.plugins.drawn.painting import SIDE, Image, Layer
from edgemeta.plugins.drawn.show import SCENES

LABELS = tuple(sorted(scene.label for scene in SCENES))
"""Labels of the things; a box's class is a place in this."""

MIN_SIZE, MAX_SIZE = 64, SIDE
"""Sides of a scene in pixels."""

_KINDS = 40
"""Paintings of each label, and half as many of each background."""
_MOST_THINGS = 6
_LEAST_SIDE, _GREATEST_SIDE = 0.14, 0.8
"""Longer side of a thing, as a part of the scene's."""
_LEAST_SEEN = 0.5
"""Part of a thing that must be in the frame and before all others."""
_GREY = 118.0
"""What contrast leaves as it is."""
_PLACES = 12
"""Places that are tried for a thing before it is left out."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Crowd:
    """A scene. pixels: uint8 [S, S, 3], B, G, R.

    boxes: float32 [n, 4], x0, y0, x1, y1 in pixels, tight around what can be seen of each thing. classes: int64 [n],
    places in LABELS.
    """

    pixels: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]


class CrowdedScenes:
    """Square scenes of `size` pixels. What is painted is kept, so later scenes are cheap."""

    def __init__(self, seed: int, size: int) -> None:
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"the size of scenes is {size}, expected {MIN_SIZE} to {MAX_SIZE} pixels")
        self._seed, self._size = seed, size
        self._things = {scene.label: scene.thing for scene in SCENES}
        self._places = [scene.place for scene in SCENES]
        self._thing = lru_cache(None)(self._paint_thing)
        self._place = lru_cache(None)(self._paint_place)

    def draw(self, number: int) -> Crowd:
        """The scene of this number, from 0."""
        rng, light = (np.random.default_rng((self._seed, stream, number)) for stream in (2, 3))
        place = self._place(int(rng.integers(len(self._places))), int(rng.integers(_KINDS // 2)))
        x, y = (int(rng.integers(room + 1)) for room in (place.shape[1] - self._size, place.shape[0] - self._size))
        canvas = place[y : y + self._size, x : x + self._size].copy()
        if rng.random() < 0.5:
            canvas = canvas[:, ::-1].copy()
        for _ in range(rng.integers(3)):
            self._clutter(canvas, rng)
        seen: list[tuple[int, int, Mask]] = []  # class, pixels of the whole thing, what is seen of it
        for _ in range(rng.integers(1, _MOST_THINGS + 1)):
            self._add_thing(canvas, seen, rng)
        self._hide(canvas, seen, rng)
        boxes = np.array([_box(mask) for _, _, mask in seen], np.float32).reshape(-1, 4)
        return Crowd(_photographed(canvas, light), boxes, np.array([each[0] for each in seen], np.int64))

    def _paint_thing(self, label: str, kind: int) -> Image:
        """A painting [H, W, 4], B, G, R (as a Layer has it, times alpha) and alpha 0 .. 1, cut to what is painted."""
        rng = np.random.default_rng((self._seed, 0, LABELS.index(label), kind))
        layer: Layer = self._things[label](rng)
        rows, columns = (np.flatnonzero(layer.alpha.max(axis) > 0.05) for axis in (1, 0))
        whole = np.dstack([np.clip(layer.colour, 0, 255), layer.alpha])
        return whole[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float32)

    def _paint_place(self, number: int, kind: int) -> Image:
        """A background, between one and a half and three times as wide as a scene."""
        rng = np.random.default_rng((self._seed, 1, number, kind))
        painted = np.clip(self._places[number](rng, SIDE), 0, 255)
        side = round(self._size * rng.uniform(1.5, 3))
        return np.asarray(cv2.resize(painted, (side, side), interpolation=cv2.INTER_AREA), np.float32)

    def _add_thing(self, canvas: Image, seen: list[tuple[int, int, Mask]], rng: np.random.Generator) -> None:
        """Paint one more thing, unless no place is found where enough of it and of the others is seen."""
        label = LABELS[int(rng.integers(len(LABELS)))]
        painting = self._thing(label, int(rng.integers(_KINDS)))
        side = self._size * np.exp(rng.uniform(np.log(_LEAST_SIDE), np.log(_GREATEST_SIDE)))
        thing = _posed(painting, side, rng)
        thing[..., :3] *= rng.uniform(0.7, 1.25) * rng.uniform(0.92, 1.08, 3)
        solid = thing[..., 3] > 0.5
        whole = int(solid.sum())
        for _ in range(_PLACES):
            centre = rng.uniform(0.05, 0.95, 2) * self._size
            top, left = (int(c - length / 2) for c, length in zip(centre, solid.shape, strict=True))
            mask, inside, part = _placed(solid, top, left, self._size)
            is_seen = mask.sum() >= _LEAST_SEEN * whole
            if whole and is_seen and all((old & ~mask).sum() >= _LEAST_SEEN * size for _, size, old in seen):
                for number, (name, size, old) in enumerate(seen):
                    seen[number] = name, size, old & ~mask
                seen.append((LABELS.index(label), whole, mask))
                cut = thing[part]
                canvas[inside] = canvas[inside] * (1 - cut[..., 3:]) + cut[..., :3]
                return

    def _hide(self, canvas: Image, seen: list[tuple[int, int, Mask]], rng: np.random.Generator) -> None:
        """Sometimes a strip or spot before everything, where it leaves enough of each thing."""
        if rng.random() < 0.7:
            return
        changed = canvas.copy()
        mask = self._clutter(changed, rng) > 0.5
        if all((old & ~mask).sum() >= _LEAST_SEEN * size for _, size, old in seen):
            canvas[:] = changed
            seen[:] = [(name, size, old & ~mask) for name, size, old in seen]

    def _clutter(self, canvas: Image, rng: np.random.Generator) -> Image:
        """Paint a strip, an ellipse or a polygon of one colour; returns its alpha [S, S]."""
        size = self._size
        mask = np.zeros((size, size), np.uint8)
        centre = rng.integers(0, size, 2)
        match rng.integers(3):
            case 0:
                other = rng.integers(0, size, 2)
                cv2.line(mask, centre.tolist(), other.tolist(), 255, int(rng.integers(1, max(2, size // 16))))
            case 1:
                axes = rng.integers(2, size // 5, 2).tolist()
                cv2.ellipse(mask, centre.tolist(), axes, float(rng.uniform(0, 180)), 0, 360, 255, -1)
            case _:
                corners = centre + rng.normal(0, size / 10, (int(rng.integers(3, 7)), 2))
                cv2.fillPoly(mask, [cv2.convexHull(corners.astype(np.int32))], 255)
        soft = cv2.GaussianBlur(mask, (0, 0), rng.uniform(0.4, 1.2))
        alpha: Image = np.asarray(soft, np.float32) / np.float32(255)
        canvas += alpha[..., None] * (rng.uniform(10, 245, 3).astype(np.float32) - canvas)
        return alpha


def _posed(painting: Image, side: float, rng: np.random.Generator) -> Image:
    """The painting with a longer side of about `side` pixels, perhaps flipped, stretched and turned a little."""
    height, width = painting.shape[:2]
    factor = side / max(height, width)
    stretch = np.exp(rng.uniform(-0.15, 0.15))
    shape = max(4, round(width * factor * stretch)), max(4, round(height * factor / stretch))
    way = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    small = cv2.resize(painting, shape, interpolation=way)
    if rng.random() < 0.5:
        small = small[:, ::-1].copy()
    room = int(np.ceil(np.hypot(*shape)))
    turn = cv2.getRotationMatrix2D((shape[0] / 2, shape[1] / 2), rng.uniform(-14, 14), 1)
    turn[:, 2] += (room - shape[0]) / 2, (room - shape[1]) / 2
    return np.asarray(cv2.warpAffine(small, turn, (room, room), flags=cv2.INTER_LINEAR), np.float32)


def _placed(solid: Mask, top: int, left: int, size: int) -> tuple[Mask, tuple[slice, slice], tuple[slice, slice]]:
    """A mask put into a scene: the scene's mask, the part of the scene, and the part of the mask that lies there."""
    height, width = solid.shape
    first, last = (max(0, top), max(0, left)), (min(size, top + height), min(size, left + width))
    inside = slice(first[0], last[0]), slice(first[1], last[1])
    part = slice(first[0] - top, last[0] - top), slice(first[1] - left, last[1] - left)
    mask = np.zeros((size, size), bool)
    mask[inside] = solid[part]
    return mask, inside, part


def _box(mask: Mask) -> tuple[int, int, int, int]:
    """Tight around the mask's pixels."""
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _photographed(canvas: Image, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The scene in some light, through a lens, with grain."""
    lit = (_GREY + (canvas - _GREY) * rng.uniform(0.75, 1.15)) * rng.uniform(0.75, 1.2) * rng.uniform(0.94, 1.06, 3)
    if rng.random() < 0.4:
        lit = np.asarray(cv2.GaussianBlur(lit, (0, 0), rng.uniform(0.3, 1.0)), np.float64)
    grainy = lit + rng.normal(0, rng.uniform(0.5, 6), lit.shape)
    return np.asarray(np.clip(np.rint(grainy), 0, 255), np.uint8)
