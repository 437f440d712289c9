"""The places: float32 images [SIDE, width, 3], B, G, R, each drawn by one function of (rng, width)."""

import cv2
import numpy as np

from edgemeta.plugins.drawn.painting import SIDE, Colour, Image, bgr, noise


def gradient(top: Colour, bottom: Colour, width: int) -> Image:
    """Vertical run from one colour to the other."""
    t = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None, None]
    run: Image = np.broadcast_to(bgr(top) * (1 - t) + bgr(bottom) * t, (SIDE, width, 3)).copy()
    return run


def mottled(image: Image, rng: np.random.Generator, strength: float, grain: float, stretch: float = 1.0) -> Image:
    """Vary the brightness by spots `grain` pixels high and `stretch` times as wide."""
    height, width = image.shape[:2]
    spots = cv2.resize(noise(rng, height, round(width / stretch) + 1, grain), (width, height))
    uneven: Image = image * (1 + strength * spots[..., None])
    return uneven


def horizon(above: Image, below: Image, at: float, softness: float = 0.8) -> Image:
    """Put `below` under `above` from `at` percent of the height on, the border `softness` percent soft."""
    rows = np.linspace(0, 100, SIDE, dtype=np.float32)[:, None, None]
    share = np.clip((rows - at) / (2 * softness) + 0.5, 0, 1)
    joined: Image = above * (1 - share) + below * share
    return joined


def sky(rng: np.random.Generator, width: int) -> Image:
    """Blue sky with a few soft clouds."""
    blue = gradient((72, 128, 200), (150, 190, 226), width)
    clouds = noise(rng, SIDE, width // 2, 90) + 0.5 * noise(rng, SIDE, width // 2, 30)
    cover = np.clip(cv2.resize(clouds, (width, SIDE))[..., None] - 1.0, 0, 1) * 0.6
    clouded: Image = blue * (1 - cover) + bgr((236, 240, 246)) * cover
    return clouded


def sea(rng: np.random.Generator, width: int) -> Image:
    """Blue water under a pale sky."""
    water = gradient((60, 118, 160), (28, 74, 120), width)
    water = mottled(mottled(water, rng, 0.06, 10, stretch=5), rng, 0.05, 40, stretch=4)
    return horizon(gradient((150, 186, 222), (206, 222, 236), width), water, 46)


def road(rng: np.random.Generator, width: int) -> Image:
    """Grey road, a strip of trees, pale sky."""
    trees = mottled(gradient((96, 112, 84), (70, 84, 62), width), rng, 0.25, 22)
    asphalt = mottled(gradient((150, 148, 146), (112, 110, 110), width), rng, 0.05, 9, stretch=3)
    return horizon(horizon(gradient((214, 224, 236), (232, 236, 240), width), trees, 28, 3), asphalt, 52)


def yard(rng: np.random.Generator, width: int) -> Image:
    """Light pavement before a pale wall."""
    wall = mottled(gradient((226, 224, 222), (206, 204, 204), width), rng, 0.03, 60)
    floor = mottled(gradient((176, 174, 174), (196, 194, 194), width), rng, 0.04, 12, stretch=3)
    return horizon(wall, floor, 60, 2)


def meadow(rng: np.random.Generator, width: int) -> Image:
    """Green meadow before a dark hedge."""
    hedge = mottled(gradient((120, 150, 120), (60, 92, 48), width), rng, 0.2, 30)
    grass = mottled(gradient((128, 168, 84), (110, 150, 62), width), rng, 0.08, 9, stretch=2)
    return horizon(hedge, grass, 36, 2)


def heath(rng: np.random.Generator, width: int) -> Image:
    """Dry grass in the fog."""
    fog = mottled(gradient((178, 180, 172), (160, 160, 146), width), rng, 0.08, 60)
    grass = mottled(gradient((162, 154, 116), (134, 124, 84), width), rng, 0.08, 24, stretch=2)
    return horizon(fog, grass, 56, 12)


def garden(rng: np.random.Generator, width: int) -> Image:
    """Out-of-focus green."""
    return mottled(mottled(gradient((120, 140, 84), (104, 124, 66), width), rng, 0.08, 120), rng, 0.04, 40)


def leaves(rng: np.random.Generator, width: int) -> Image:
    """Dark wet ground with leaves."""
    ground = mottled(gradient((40, 44, 32), (60, 58, 44), width), rng, 0.25, 70)
    return mottled(ground, rng, 0.15, 18)


def parlour(rng: np.random.Generator, width: int) -> Image:
    """Dim room."""
    return mottled(gradient((74, 70, 74), (50, 47, 50), width), rng, 0.06, 120)
