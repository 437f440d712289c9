"""The cached views that the student learns from: plain ones, then ones mixed with another image."""

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.recipe import Recipe
from edgemeta.toolchain.train.augment import STREAM_VIEWS, ImageBank, blend_pixels, draw_mix, draw_view


class StudentView:
    """View `number` of all images: plain for number < views.count, mixed from there on."""

    def __init__(self, recipe: Recipe, bank: ImageBank, number: int) -> None:
        views = recipe.views
        self._bank = bank
        self._view = draw_view(recipe.seed, STREAM_VIEWS, number, bank.images, views.pad, views.alternate_share)
        mixed = number >= views.count
        self._mix = draw_mix(recipe.seed, number, bank.images, views.mix_least) if mixed else None

    def pixels(self, index: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Pixels uint8 [B, 3, H, W] of the images `index` [B]."""
        own = self._bank.cut(self._view, index)
        if self._mix is None:
            return own
        other = self._bank.cut(self._view, self._mix.partner[index])
        return blend_pixels(own, other, self._mix.share[index])

    def label_shares(self, index: NDArray[np.integer], y: NDArray[np.integer], classes: int) -> NDArray[np.float32]:
        """What part of each class is in the images `index`: float32 [B, classes], rows sum to 1; y: labels [N]."""
        out = np.zeros((len(index), classes), np.float32)
        rows = np.arange(len(index))
        if self._mix is None:
            out[rows, y[index]] = 1.0
            return out
        share = self._mix.share[index]
        np.add.at(out, (rows, y[index]), share)
        np.add.at(out, (rows, y[self._mix.partner[index]]), 1 - share)
        return out
