"""The teacher's learning rate, and its cached targets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.recipe import TeacherRecipe, recipe_from
from edgemeta.toolchain.train.augment import STREAM_VIEWS, ImageBank, draw_view
from edgemeta.toolchain.train.batches import logits_of
from edgemeta.toolchain.train.networks import Teacher
from edgemeta.toolchain.train.teacher import cached_logits, teacher_rate, triangle


def test_triangle() -> None:
    assert triangle(0.0, 0.2, 0.1, 0.05) == pytest.approx(0.1)
    assert triangle(0.2, 0.2, 0.1, 0.05) == pytest.approx(1.0)
    assert triangle(1.0, 0.2, 0.1, 0.05) == pytest.approx(0.05)


def test_two_descents() -> None:
    recipe = TeacherRecipe(epochs=12, refine_epochs=4, lr=1.0, refine_lr=0.5, lr_end=0.1)
    assert teacher_rate(recipe, 7.9999) == pytest.approx(0.1, abs=1e-3)
    assert teacher_rate(recipe, 8.0) == 0.5
    assert teacher_rate(recipe, 10.0) == 0.25
    assert teacher_rate(recipe, 12.0) == 0.0
    assert teacher_rate(TeacherRecipe(epochs=4, refine_epochs=0), 3.9) > 0


def test_targets_are_cached_and_blended(tmp_path: Path, pixels: Any) -> None:
    recipe = recipe_from({"views": {"count": 3, "pad": 1, "blend": 0.25}}, "r")
    teacher, bank = Teacher((8, 8)), ImageBank(pixels, 1)
    reporter = Reporter(tmp_path / "log.jsonl", None)
    targets = cached_logits(recipe, bank, teacher, tmp_path, reporter)
    views = [draw_view(recipe.seed, STREAM_VIEWS, k, 20, 1, 0.5) for k in range(3)]
    raw = np.stack([logits_of(teacher, bank.cut(v, np.arange(20))).numpy() for v in views])
    assert targets.dtype == np.float16
    np.testing.assert_allclose(targets, 0.75 * raw + 0.25 * raw.mean(0), atol=2e-3)
    files = sorted(tmp_path.glob("logits-*.npy"))
    assert len(files) == 3
    stamps = [f.stat().st_mtime_ns for f in files]
    assert (cached_logits(recipe, bank, teacher, tmp_path, reporter) == targets).all()
    assert [f.stat().st_mtime_ns for f in files] == stamps
    np.save(files[1], np.zeros((4, 10), np.float16))
    with pytest.raises(CheckpointError, match="expected float16 logits of 20 images"):
        cached_logits(recipe, bank, teacher, tmp_path, reporter)
