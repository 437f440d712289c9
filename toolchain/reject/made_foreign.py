"""Foreign pictures made of known ones, and drawn: what is certainly no picture of one known thing.

A network that never saw anything else takes what it can: these show it the edges, colours and textures that it knows
in arrangements that it does not. Every picture is a function of the seed and the known pictures.
"""

from collections.abc import Callable, Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.preprocess import resize_area

Pictures = NDArray[np.uint8]
"""uint8 [N, H, W, 3]."""
Make = Callable[[Pictures, np.random.Generator], Pictures]
"""Makes one picture [H, W, 3] of the known ones."""


def make_foreign(known: Pictures, kind: str, count: int, seed: int = 0) -> Pictures:
    """`count` foreign pictures [count, H, W, 3] of a kind of KINDS, made of known pictures [N, H, W, 3]."""
    rng = np.random.default_rng((seed, list(KINDS).index(kind)))
    make = KINDS[kind]
    return np.stack([make(known, rng) for _ in range(count)])


def _one(known: Pictures, rng: np.random.Generator) -> Pictures:
    picture: Pictures = known[rng.integers(len(known))]
    return picture


def _mosaic(side: int) -> Make:
    """Side x side pictures beside each other, seen from further away: a scene of many small things."""

    def make(known: Pictures, rng: np.random.Generator) -> Pictures:
        chosen = known[rng.integers(0, len(known), side * side)]
        height, width = known.shape[1:3]
        rows = chosen.reshape(side, side, height, width, 3).transpose(0, 2, 1, 3, 4)
        whole = rows.reshape(side * height, side * width, 3)
        moved = np.roll(whole, tuple(rng.integers(0, (height, width))), (0, 1))
        return resize_area(np.ascontiguousarray(moved), height, width)

    return make


def _shuffled(side: int) -> Make:
    """One picture, cut into side x side parts in another order."""

    def make(known: Pictures, rng: np.random.Generator) -> Pictures:
        picture = _one(known, rng).copy()
        height, width = picture.shape[0] // side, picture.shape[1] // side
        places = [(y * height, x * width) for y in range(side) for x in range(side)]
        parts = [picture[y : y + height, x : x + width].copy() for y, x in places]
        for (y, x), part in zip(places, rng.permutation(side * side), strict=True):
            picture[y : y + height, x : x + width] = parts[part]
        return picture

    return make


def _scrambled(known: Pictures, rng: np.random.Generator) -> Pictures:
    """One picture's spectrum with random phases: its texture without its shapes."""
    picture = _one(known, rng)
    size = (picture.shape[0], picture.shape[1])
    turn = np.exp(1j * np.angle(np.fft.rfft2(rng.normal(size=size))))[..., np.newaxis]
    turned = np.fft.irfft2(np.fft.rfft2(picture, axes=(0, 1)) * turn, s=size, axes=(0, 1))
    return np.round(np.clip(turned, 0, 255)).astype(np.uint8)


def _blurred(known: Pictures, rng: np.random.Generator) -> Pictures:
    """One picture, so blurred that its thing cannot be made out."""
    picture = _one(known, rng)
    sigma = float(rng.uniform(0.05, 0.2)) * picture.shape[0]
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.uint8)


def _enlarged(known: Pictures, rng: np.random.Generator) -> Pictures:
    """A third of one picture, enlarged."""
    picture = _one(known, rng)
    height, width = picture.shape[:2]
    h, w = max(1, height // 3), max(1, width // 3)
    y, x = rng.integers(0, (height - h + 1, width - w + 1))
    part = np.ascontiguousarray(picture[y : y + h, x : x + w])
    return np.asarray(cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def _noise(known: Pictures, rng: np.random.Generator) -> Pictures:
    """Every pixel by chance."""
    return rng.integers(0, 256, known.shape[1:]).astype(np.uint8)


def _plain(known: Pictures, rng: np.random.Generator) -> Pictures:
    """One colour, with the noise of a camera: a covered lens, a wall."""
    colour = rng.integers(0, 256, 3)
    return np.clip(np.round(colour + rng.normal(0, 3, known.shape[1:])), 0, 255).astype(np.uint8)


def _drawn(known: Pictures, rng: np.random.Generator) -> Pictures:
    """Rectangles, lines and ellipses of any colour, at four times the size."""
    height, width = known.shape[1:3]
    canvas = np.full((4 * height, 4 * width, 3), rng.integers(0, 256, 3), np.uint8)
    for _ in range(int(rng.integers(3, 25))):
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        x, y = (int(value) for value in rng.integers(0, (4 * width, 4 * height)))
        right, bottom = (int(value) for value in (x, y) + rng.uniform(-0.4, 0.4, 2) * (4 * width, 4 * height))
        match rng.integers(3):
            case 0:
                cv2.rectangle(canvas, (x, y), (right, bottom), colour, int(rng.integers(1, 6)))
            case 1:
                cv2.line(canvas, (x, y), (right, bottom), colour, int(rng.integers(1, 6)))
            case _:
                radii = (max(1, abs(right - x) // 2), max(1, abs(bottom - y) // 2))
                cv2.ellipse(canvas, (x, y), radii, float(rng.uniform(0, 180)), 0, 360, colour, -1)
    return resize_area(canvas, height, width)


KINDS: Mapping[str, Make] = {
    "mosaic of 4": _mosaic(2),
    "mosaic of 9": _mosaic(3),
    "mosaic of 16": _mosaic(4),
    "shuffled 2x2": _shuffled(2),
    "shuffled 4x4": _shuffled(4),
    "scrambled": _scrambled,
    "blurred": _blurred,
    "enlarged": _enlarged,
    "noise": _noise,
    "plain": _plain,
    "drawn": _drawn,
}
"""How to make foreign pictures, by the name of their kind in reports."""
