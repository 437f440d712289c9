"""What the student sees: every image once, some blended with others of the batch and named by a teacher."""

from typing import Any

import numpy as np
import torch

from edgemeta.toolchain.recipe import recipe_from
from edgemeta.toolchain.train.augment import STREAM_STUDENT, ImageBank, draw_view
from edgemeta.toolchain.train.batches import logits_of
from edgemeta.toolchain.train.lessons import Lessons
from edgemeta.toolchain.train.networks import Teacher

RECIPE = recipe_from({"student": {"batch": 8, "pad": 1}, "refine": {"mixed": 0.6, "least": 0.4}}, "r")


def lessons(pixels: Any, classes: Any) -> Lessons:
    targets = np.arange(200, dtype=np.float32).reshape(20, 10)
    return Lessons(RECIPE, ImageBank(pixels, 1), targets, classes)


def test_plain(pixels: Any, classes: Any) -> None:
    shown = lessons(pixels, classes)
    batches = list(shown.plain(3))
    assert shown.steps == len(batches) == 2
    index = torch.cat([b.target for b in batches])[:, 0].numpy().astype(int) // 10
    assert len(set(index)) == 16
    view = draw_view(RECIPE.seed, STREAM_STUDENT, 3, 20, 1, 0.5)
    assert (np.concatenate([b.pixels for b in batches]) == ImageBank(pixels, 1).cut(view, index)).all()
    assert (torch.cat([b.labels for b in batches]).numpy() == classes[index]).all()


def test_blended(pixels: Any, classes: Any) -> None:
    torch.manual_seed(0)
    teachers = [Teacher((4, 4)), Teacher((4, 4))]
    shown = lessons(pixels, classes)
    plain, batches = list(shown.plain(3)), list(shown.blended(3, teachers))
    for step, (batch, before) in enumerate(zip(batches, plain, strict=True)):
        assert len(batch.labels) == 4
        assert (batch.labels == before.labels[:4]).all()
        assert (batch.pixels[:4] == before.pixels[:4]).all()
        assert (batch.target[:4] == before.target[:4]).all()
        assert (batch.target[4:] == logits_of(teachers[step % 2], batch.pixels[4:])).all()
        own, partner = before.pixels[4:].astype(np.float64), before.pixels[:4].astype(np.float64)
        for image, a, b in zip(batch.pixels[4:], own, partner, strict=True):
            share = np.dot((image - b).ravel(), (a - b).ravel()) / np.square(a - b).sum()  # least squares
            assert 0.39 < share < 1.01
            assert np.abs(image - (share * a + (1 - share) * b)).max() <= 0.6
