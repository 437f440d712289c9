"""Photographs that move, for a detector: free ones of the package scikit-image (extra `demo`), whose label is known.

They are read as files of the package, which itself is not imported.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import EdgemetaError
from edgemeta.plugins.drawn.show import HEIGHT, WIDTH

_PACKAGE = "skimage"
_GREY = 128
"""Level of each colour beside a photograph."""


class PhotographError(EdgemetaError):
    """The photographs are not there, with the reason in one sentence."""


@dataclass(frozen=True)
class Photograph:
    """A file of the package, what it shows best, and who gives it to everybody.

    middle, width: centre of the part that is looked at and its width, as fractions of the photograph's sides.
    """

    label: str
    file: str
    credit: str
    middle: tuple[float, float] = (0.5, 0.5)
    width: float = 0.9

    def take(self, seed: int, index: int) -> "PhotographTake":
        """The photograph, ready to be moved. Raises PhotographError."""
        return PhotographTake(self, seed, index)


PHOTOGRAPHS = (
    Photograph("person", "astronaut.png", "NASA, public domain"),
    Photograph("cat", "chelsea.png", "Stefan van der Walt, CC0", width=1.8),
    Photograph("person", "camera.png", "Lav Varshney, CC0"),
)


def has_photographs() -> bool:
    """Whether the package is installed."""
    return find_spec(_PACKAGE) is not None


def photographs() -> tuple[Photograph, ...]:
    """The photographs in turn. Raises PhotographError without the package."""
    if not has_photographs():
        raise PhotographError("photographs need the package scikit-image: pip install 'edgemeta[demo]'")
    return PHOTOGRAPHS


class PhotographTake:
    """One photograph: the part that is looked at moves, as a hand holds a camera, grows and shrinks."""

    def __init__(self, photograph: Photograph, seed: int, index: int) -> None:
        self.index = index
        self._photograph = photograph
        self._pixels = _read(photograph.file)
        rng = np.random.default_rng((seed, index))
        self._phase = rng.uniform(0, 2 * np.pi, 3)
        self._light = rng.uniform(0.9, 1.05)

    def draw(self, t: float) -> NDArray[np.uint8]:
        """The frame at t = 0 .. 1, [HEIGHT, WIDTH, 3], B, G, R; grey beside the photograph."""
        height, width = self._pixels.shape[:2]
        across, down, zoom = np.sin(2 * np.pi * t * np.array([1.0, 1.5, 0.5]) + self._phase)
        scale = WIDTH / (self._photograph.width * width * (1 + 0.12 * zoom))
        x = width * (self._photograph.middle[0] + 0.08 * across)
        y = height * (self._photograph.middle[1] + 0.04 * down)
        turn = np.array([[scale, 0, WIDTH / 2 - scale * x], [0, scale, HEIGHT / 2 - scale * y]])
        moved = cv2.warpAffine(
            self._pixels, turn, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR, borderValue=(_GREY, _GREY, _GREY)
        )
        return np.asarray(cv2.convertScaleAbs(moved, alpha=self._light), np.uint8)


def _read(name: str) -> NDArray[np.uint8]:
    spec = find_spec(_PACKAGE)
    folders = () if spec is None else spec.submodule_search_locations or ()
    for folder in folders:
        pixels = cv2.imread(str(Path(folder) / "data" / name), cv2.IMREAD_COLOR)
        if pixels is not None:
            return np.asarray(pixels, np.uint8)
    raise PhotographError(
        f"the package scikit-image has no photograph data/{name}, expected one of version 0.22 to 0.26"
    )
