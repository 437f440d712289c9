"""What the student sees: every image once per epoch, in a view of that epoch, with its own target."""

from typing import Any

import numpy as np
import torch

from edgemeta.toolchain.recipe import recipe_from
from edgemeta.toolchain.train.augment import STREAM_STUDENT, ImageBank, draw_view
from edgemeta.toolchain.train.lessons import Lessons

RECIPE = recipe_from({"student": {"batch": 8, "pad": 1}}, "r")


def test_an_epoch(pixels: Any, classes: Any) -> None:
    targets = np.arange(200, dtype=np.float32).reshape(20, 10)
    lessons = Lessons(RECIPE, ImageBank(pixels, 1), targets, classes)
    batches = list(lessons.epoch(3))
    assert lessons.steps == len(batches) == 2
    index = torch.cat([b.target for b in batches])[:, 0].numpy().astype(int) // 10
    assert len(set(index)) == 16
    view = draw_view(RECIPE.seed, STREAM_STUDENT, 3, 20, 1, 0.5)
    assert (np.concatenate([b.pixels for b in batches]) == ImageBank(pixels, 1).cut(view, index)).all()
    assert (torch.cat([b.labels for b in batches]).numpy() == classes[index]).all()
