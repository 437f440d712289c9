"""The brush: shaded shapes on a transparent layer, and soft noise. Units are percent of the layer's side.

Colours are (red, green, blue), 0 to 255; layers and backdrops hold B, G, R as cameras do.
"""

from collections.abc import Sequence
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

Colour: TypeAlias = tuple[float, float, float]
Points: TypeAlias = Sequence[tuple[float, float]]
Image: TypeAlias = NDArray[np.float32]
"""[H, W, 3] in B, G, R order, 0 .. 255, or of one value a pixel [H, W]."""

SIDE = 480
"""Side of a layer in pixels: the height of the camera image, so that a layer fills its centre crop."""

SUBPIXEL_BITS = 4
OCTAVES = 3


def bgr(colour: Colour) -> Image:
    """Give the colour as float32 [3] in B, G, R order."""
    return np.array(colour[::-1], np.float32)


def lighter(colour: Colour, factor: float) -> Colour:
    """Multiply the colour by `factor`, clamped to 0 .. 255."""
    red, green, blue = (min(255.0, channel * factor) for channel in colour)
    return red, green, blue


def one_of(rng: np.random.Generator, colours: Sequence[Colour]) -> Colour:
    """Pick a colour."""
    return colours[int(rng.integers(len(colours)))]


def spline(corners: Points, steps: int = 8) -> NDArray[np.float32]:
    """Points [N * steps, 2] on the closed Catmull-Rom spline through the N corners."""
    here = np.asarray(corners, np.float32)
    before, after, beyond = (np.roll(here, shift, axis=0) for shift in (1, -1, -2))
    t = np.linspace(0, 1, steps, endpoint=False, dtype=np.float32)[None, :, None]
    p0, p1, p2, p3 = (points[:, None, :] for points in (before, here, after, beyond))
    curve = 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3)
    return np.asarray(curve.reshape(-1, 2), np.float32)


def noise(rng: np.random.Generator, height: int, width: int, grain: float) -> Image:
    """Fractal noise [height, width] of zero mean and unit deviation; its largest blobs are about `grain` pixels."""
    total = np.zeros((height, width), np.float32)
    for octave in range(OCTAVES):
        rows, columns = (max(2, round(side * 2**octave / grain)) + 1 for side in (height, width))
        coarse = rng.standard_normal((rows, columns), np.float32) * 0.6**octave
        total += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    mean, deviation = cv2.meanStdDev(total)
    normalized: Image = (total - mean.item()) / (deviation.item() + 1e-6)
    return normalized


class Layer:
    """A square layer, SIDE x SIDE: `colour` float32 [SIDE, SIDE, 3] (B, G, R) under `alpha` float32 [SIDE, SIDE]."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.colour = np.zeros((SIDE, SIDE, 3), np.float32)
        self.alpha = np.zeros((SIDE, SIDE), np.float32)

    def shape(
        self,
        outline: Points | NDArray[np.float32],
        colour: Colour,
        *,
        relief: float = 0.3,
        soft: float = 0.0,
        mottle: float = 0.0,
        grain: float = 24.0,
    ) -> None:
        """Fill a polygon; outline: corners [n, 2], x and y in percent of the side.

        `relief` lights its upper and shades its lower rim, `soft` blurs the edge (percent), `mottle` is the strength of
        spots about `grain` pixels wide.
        """
        scale = SIDE / 100 * (1 << SUBPIXEL_BITS)
        mask = np.zeros((SIDE, SIDE), np.uint8)
        corners = np.round(np.asarray(outline, np.float32) * scale).astype(np.int32)
        cv2.fillPoly(mask, [corners], 255, cv2.LINE_AA, SUBPIXEL_BITS)
        self._lay(np.asarray(mask / 255, np.float32), colour, relief, soft, mottle, grain)

    def blob(
        self,
        corners: Points,
        colour: Colour,
        *,
        relief: float = 0.3,
        soft: float = 0.0,
        mottle: float = 0.0,
        grain: float = 24.0,
    ) -> None:
        """Fill the smooth closed curve through the corners; the rest as `shape`."""
        self.shape(spline(corners), colour, relief=relief, soft=soft, mottle=mottle, grain=grain)

    def ellipse(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: Colour,
        *,
        angle: float = 0.0,
        relief: float = 0.3,
        soft: float = 0.0,
        mottle: float = 0.0,
        grain: float = 24.0,
    ) -> None:
        """Fill an ellipse about (x, y) with the given diameters, turned clockwise by `angle` degrees."""
        turn, t = np.deg2rad(angle), np.linspace(0, 2 * np.pi, 48, endpoint=False)
        u, v = np.cos(t) * width / 2, np.sin(t) * height / 2
        outline = np.stack([x + u * np.cos(turn) - v * np.sin(turn), y + u * np.sin(turn) + v * np.cos(turn)], axis=1)
        self.shape(outline.astype(np.float32), colour, relief=relief, soft=soft, mottle=mottle, grain=grain)

    def limb(
        self, joints: Points, widths: Sequence[float], colour: Colour, *, relief: float = 0.3, soft: float = 0.0
    ) -> None:
        """Fill a tapering line through the joints, `widths[i]` wide at joint i."""
        path, half = np.asarray(joints, np.float32), np.asarray(widths, np.float32)[:, None] / 2
        along = np.gradient(path, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True) + 1e-6
        across = np.stack([-along[:, 1], along[:, 0]], axis=1) * half
        self.shape(np.concatenate([path + across, (path - across)[::-1]]), colour, relief=relief, soft=soft)

    def soften(self, spread: float) -> None:
        """Blur the whole layer, as fur does, by `spread` percent."""
        self.colour = np.asarray(cv2.GaussianBlur(self.colour, (0, 0), spread * SIDE / 100), np.float32)
        self.alpha = np.asarray(cv2.GaussianBlur(self.alpha, (0, 0), spread * SIDE / 100), np.float32)

    def _lay(self, mask: Image, colour: Colour, relief: float, soft: float, mottle: float, grain: float) -> None:
        if soft:
            mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), soft * SIDE / 100), np.float32)
        rows, columns = np.nonzero(mask.max(axis=1))[0], np.nonzero(mask.max(axis=0))[0]
        if not rows.size:
            return
        box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        cover = mask[box]
        height, width = cover.shape
        light = np.ones_like(cover)
        if relief:
            spread = max(2.0, min(height, width) / 5)
            round_body = cv2.GaussianBlur(cover, (0, 0), spread, borderType=cv2.BORDER_CONSTANT)
            light += relief * spread * 2.5 * np.gradient(round_body, axis=0)
        if mottle:
            light += mottle * noise(self.rng, height, width, grain)
        shaded = bgr(colour) * light[..., None]
        self.colour[box] += cover[..., None] * (shaded - self.colour[box])
        self.alpha[box] += cover * (1 - self.alpha[box])
