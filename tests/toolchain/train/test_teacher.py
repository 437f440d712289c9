"""The teachers' learning rate and targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter, TrainingEvent
from edgemeta.toolchain.train.augment import STREAM_VIEWS, ImageBank, draw_view
from edgemeta.toolchain.train.batches import logits_of
from edgemeta.toolchain.train.recipe import recipe_from
from edgemeta.toolchain.train.teacher import Teacher, teacher_logits, triangle


def test_triangle() -> None:
    assert triangle(0.0, 0.2, 0.1, 0.05) == pytest.approx(0.1)
    assert triangle(0.2, 0.2, 0.1, 0.05) == pytest.approx(1.0)
    assert triangle(1.0, 0.2, 0.1, 0.05) == pytest.approx(0.05)


def test_the_mean_logits_of_all_views_are_stored(tmp_path: Path, pixels: Any) -> None:
    recipe = recipe_from({"teacher": {"views": 3, "count": 2}}, "r")
    teacher, bank = Teacher((8, 8)), ImageBank(pixels, 1)
    events: list[TrainingEvent] = []
    reporter = Reporter(tmp_path / "log.jsonl", events.append)
    mean = teacher_logits(recipe, 1, teacher, bank, tmp_path, "data", reporter)
    views = [draw_view(recipe.seed, STREAM_VIEWS, k, 20, 1, 0.5) for k in range(3)]
    raw = np.stack([logits_of(teacher, bank.cut(v, np.arange(20))).numpy() for v in views])
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean, raw.mean(0), atol=2e-3)
    assert [(e.stage, e.epoch, e.epochs) for e in events] == [("views", n, 6) for n in (4, 5, 6)]
    files = sorted(tmp_path.glob("logits-*.npy"))
    assert len(files) == 3
    stamps = [f.stat().st_mtime_ns for f in files]
    assert (teacher_logits(recipe, 1, teacher, bank, tmp_path, "data", reporter) == mean).all()
    assert [f.stat().st_mtime_ns for f in files] == stamps
    np.save(files[1], np.zeros((4, 10), np.float16))
    with pytest.raises(CheckpointError, match="expected float16 logits of 20 images"):
        teacher_logits(recipe, 1, teacher, bank, tmp_path, "data", reporter)


def test_teacher_gives_logits() -> None:
    assert Teacher((8, 16, 16), 7)(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_whitening_makes_patches_uncorrelated() -> None:
    torch.manual_seed(0)
    coarse = torch.randn(64, 3, 8, 8)
    x = torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bilinear") + 0.1 * torch.randn(64, 3, 32, 32)
    teacher = Teacher((8,))
    teacher.whiten(x)
    with torch.no_grad():
        out = torch.nn.functional.conv2d(x, teacher.whitening.weight).transpose(0, 1).reshape(24, -1)[:12]
    covariance = (out @ out.T) / out.shape[1]
    assert (covariance - torch.eye(12)).abs().max() < 0.1
