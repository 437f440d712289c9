"""Random views for the backbone: parts of images and photographs, scaled, mirrored, in other light, with noise or blur.

A batch is drawn from a generator that is seeded with (seed, epoch, number): the same three integers give the same
pixels.
"""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from tools.backbone.recipe import BackboneRecipe

Picture = NDArray[np.uint8]
"""uint8 [H, W, 3] RGB."""

UNLABELLED = -1
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TRIES = 10


class Views:
    """Draws batches of views.

    images, y: labelled images uint8 [N, 32, 32, 3] RGB and their classes. alternates: other pixels of some of them, by
    number, used half of the time. photographs: without labels.
    """

    def __init__(
        self,
        recipe: BackboneRecipe,
        images: NDArray[np.uint8],
        y: NDArray[np.int64],
        alternates: Mapping[int, Picture],
        photographs: Sequence[Picture],
    ) -> None:
        self._recipe, self._images, self._y = recipe, images, y
        self._alternates, self._photographs = alternates, photographs

    def batch(self, epoch: int, number: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Pixels uint8 [half, view, view, 3], and classes int64 [half], UNLABELLED for mosaics and photographs."""
        recipe = self._recipe
        rng = np.random.default_rng([recipe.seed, epoch, number])
        views, classes = [], []
        for i in rng.integers(0, len(self._images), recipe.labelled):
            views.append(self._view(rng, self._image(rng, int(i)), 0.4))
            classes.append(int(self._y[i]))
        for _ in range(recipe.mosaics):
            nine = [self._image(rng, int(i)) for i in rng.integers(0, len(self._images), 9)]
            mosaic = np.concatenate([np.concatenate(nine[row : row + 3], 1) for row in (0, 3, 6)], 0)
            views.append(self._view(rng, mosaic, 0.25))
        for i in rng.integers(0, len(self._photographs), recipe.half - len(views)):
            views.append(self._view(rng, self._photographs[i], 0.15))
        classes += [UNLABELLED] * (len(views) - len(classes))
        return np.stack(views), np.array(classes)

    def _image(self, rng: np.random.Generator, number: int) -> Picture:
        other = self._alternates.get(number)
        if other is not None and rng.random() < 0.5:
            return other
        image: Picture = self._images[number]
        return image

    def _view(self, rng: np.random.Generator, picture: Picture, least_area: float) -> Picture:
        return in_other_light(rng, scaled(rng, part_of(rng, picture, least_area), self._recipe.view))


def part_of(rng: np.random.Generator, picture: Picture, least_area: float) -> Picture:
    """A rectangle with between `least_area` and all of the area, its sides between 3:4 and 4:3."""
    height, width = picture.shape[:2]
    for _ in range(_TRIES):
        area = height * width * rng.uniform(least_area, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        columns, rows = round(float(np.sqrt(area * ratio))), round(float(np.sqrt(area / ratio)))
        if 0 < columns <= width and 0 < rows <= height:
            break
    else:
        columns = rows = min(height, width)
    top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
    return picture[top : top + rows, left : left + columns]


def scaled(rng: np.random.Generator, picture: Picture, size: int) -> Picture:
    """Scaled to a square, by areas if it becomes smaller, and mirrored half of the time."""
    if min(picture.shape[:2]) >= size:
        how = cv2.INTER_AREA
    else:
        how = cv2.INTER_CUBIC if rng.random() < 0.5 else cv2.INTER_LINEAR
    square: Picture = np.asarray(cv2.resize(np.ascontiguousarray(picture), (size, size), interpolation=how), np.uint8)
    return square[:, ::-1] if rng.random() < 0.5 else square


def in_other_light(rng: np.random.Generator, picture: Picture) -> Picture:
    """Other saturation, colour of light, contrast and brightness; sometimes grey, noisy or blurred."""
    x = picture.astype(np.float32)
    if rng.random() < 0.8:
        saturation = rng.uniform(0.6, 1.4)
        x = (x @ _GREY)[..., np.newaxis] * (1 - saturation) + x * saturation
        x = x * rng.uniform(0.85, 1.15, 3).astype(np.float32)
        contrast, mean = rng.uniform(0.6, 1.4), x.mean()
        x = (x - mean) * contrast + mean * rng.uniform(0.6, 1.4)
    if rng.random() < 0.15:
        x = np.repeat((x @ _GREY)[..., np.newaxis], 3, 2)
    if rng.random() < 0.15:
        x = x + rng.normal(0, rng.uniform(2, 10), x.shape).astype(np.float32)
    if rng.random() < 0.15:
        x = np.asarray(cv2.GaussianBlur(x, (0, 0), rng.uniform(0.4, 1.2)), np.float32)
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)
