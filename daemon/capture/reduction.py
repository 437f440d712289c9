"""By how much a stream's pictures are made smaller as they are decoded: no more is made than is looked at."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the process of a stream loads neither
    from edgemeta.daemon.config.camera import CameraConfig
    from edgemeta.model.preprocess import ImageInput

DIVISORS = (8, 4, 2)
"""Of both sides; those that a JPEG can be decoded to."""

LEAST_SIDE = 320
"""Pixels of the longer side that `auto` leaves: a frozen or moved camera is recognized by them."""


@dataclass(frozen=True)
class Reduction:
    """most: greatest divisor of both sides. width, height: pixels that must be left of the whole picture, at least.

    either: whether it suffices that one of the two is left.
    """

    most: int = 1
    width: float = 0.0
    height: float = 0.0
    either: bool = False

    def divisor(self, width: int, height: int) -> int:
        """Return by what both sides of a picture are divided, rounded down: 8, 4, 2 or 1."""
        enough = any if self.either else all
        for divisor in DIVISORS:
            left = width // divisor, height // divisor
            if divisor <= self.most and min(left) and enough((left[0] >= self.width, left[1] >= self.height)):
                return divisor
        return 1


WHOLE = Reduction()
"""No reduction."""


def reduction_of(camera: "CameraConfig", model: "ImageInput | None") -> Reduction:
    """Return what the key `reduce` asks for; `auto`: as far as the model's input has no more pixels than the picture.

    So a region and tiles leave more of the picture. A circle is cut from the whole one, as it is without a model.
    """
    if camera.reduce != "auto":
        return Reduction(camera.reduce)
    if model is None or camera.circle is not None:
        return WHOLE
    height, width = model.input.shape[:2]
    region, tiles = camera.region, camera.tiles
    across = region.width / (tiles.columns - (tiles.columns - 1) * tiles.overlap)
    down = region.height / (tiles.rows - (tiles.rows - 1) * tiles.overlap)
    needed = max(LEAST_SIDE, width / across), height / down
    if camera.rotation in (90, 270):
        needed = max(LEAST_SIDE, height / down), width / across
    return Reduction(DIVISORS[0], *needed, either=model.preprocessing.crop == "letterbox")
