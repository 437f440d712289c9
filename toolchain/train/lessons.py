"""What the student is shown: views drawn anew in every epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemeta.toolchain.recipe import Recipe
from edgemeta.toolchain.train.augment import (
    STREAM_ORDER,
    STREAM_STUDENT,
    ImageBank,
    draw_view,
    generator,
)


@dataclass(frozen=True, eq=False)
class Batch:
    """pixels: uint8 [B, 3, H, W]. target: logits float32 [B, classes]. labels: int64 [B]."""

    pixels: NDArray[np.uint8]
    target: Tensor
    labels: Tensor


class Lessons:
    """Batches of an epoch, the same ones for the same recipe and number of the epoch.

    targets: the teachers' mean logits, float32 [N, classes]. y: labels [N].
    """

    def __init__(self, recipe: Recipe, bank: ImageBank, targets: NDArray[np.float32], y: NDArray[np.integer]) -> None:
        self._recipe, self._bank = recipe, bank
        self._targets = torch.from_numpy(targets)
        self._labels = torch.from_numpy(y.astype(np.int64))

    @property
    def steps(self) -> int:
        """Batches of one epoch."""
        images: int = self._bank.images
        return images // self._recipe.student.batch

    def epoch(self, number: int) -> Iterator[Batch]:
        """Every image once, in a fresh view; its target is the teachers' mean."""
        recipe, part = self._recipe, self._recipe.student
        order = generator(recipe.seed, STREAM_ORDER, 1_000_000 + number).permutation(self._bank.images)
        view = draw_view(recipe.seed, STREAM_STUDENT, number, self._bank.images, part.pad, recipe.alternate_share)
        for step in range(self.steps):
            index = order[step * part.batch : (step + 1) * part.batch]
            yield Batch(self._bank.cut(view, index), self._targets[index], self._labels[index])
