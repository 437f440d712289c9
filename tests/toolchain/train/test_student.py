"""Distillation: the loss is the formula, the rate its curve; the refined network is a mean of weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.toolchain.data import Dataset
from edgemeta.toolchain.progress import Progress, Reporter
from edgemeta.toolchain.recipe import recipe_from
from edgemeta.toolchain.train.augment import ImageBank
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.lessons import Lessons
from edgemeta.toolchain.train.networks import ResNet8
from edgemeta.toolchain.train.student import cosine, distillation_loss, refine_path, refine_student


def test_cosine() -> None:
    assert cosine(0.0, 0.1) == 0.0
    assert cosine(0.05, 0.1) == pytest.approx(0.5)
    assert cosine(0.1, 0.1) == pytest.approx(1.0)
    assert cosine(0.55, 0.1) == pytest.approx(0.5)
    assert cosine(1.0, 0.1) == pytest.approx(0.0)


def test_loss_is_the_formula() -> None:
    rng = np.random.default_rng(0)
    s, t, y, h, temperature = rng.normal(0, 2, (5, 4)), rng.normal(0, 2, (5, 4)), np.array([0, 3, 1, 1, 2]), 0.3, 2.5

    def log_softmax(z: np.ndarray) -> np.ndarray:
        return z - np.log(np.exp(z).sum(1, keepdims=True))

    p, q = log_softmax(t / temperature), log_softmax(s / temperature)
    soft = (np.exp(p) * (p - q)).sum(1).mean()
    hard = -log_softmax(s)[np.arange(5), y].mean()
    wanted = (1 - h) * temperature**2 * soft + h * hard
    found = distillation_loss(*(torch.from_numpy(a) for a in (s, t, y)), temperature, h)
    assert float(found) == pytest.approx(wanted)
    zero = distillation_loss(torch.from_numpy(t), torch.from_numpy(t), torch.from_numpy(y), temperature, 0.0)
    assert float(zero) == pytest.approx(0.0, abs=1e-9)


def test_the_refined_network_is_the_mean_of_its_paths(tmp_path: Path, pixels: Any, classes: Any) -> None:
    recipe = recipe_from({"student": {"batch": 10}, "refine": {"epochs": 2, "lr": 0.01}}, "r")
    labels = tuple("abcdefghij")
    data = Dataset(pixels, classes, labels)
    lessons = Lessons(recipe, ImageBank(pixels, 4), np.eye(10, dtype=np.float32)[classes], classes)
    torch.manual_seed(0)
    start, reporter = ResNet8(), Reporter(tmp_path / "log.jsonl", None)
    refined = refine_student(recipe, start, lessons, data, tmp_path, reporter)
    paths = [refine_path(recipe, k, start, lessons, data, tmp_path, reporter) for k in (0, 1)]  # from the checkpoints
    found, ends = refined.fc.weight, [path.fc.weight for path in paths]
    assert not torch.equal(ends[0], ends[1])
    torch.testing.assert_close(found, (ends[0] + ends[1]) / 2)
    seen = torch.cat([network_input(batch.pixels) for batch in lessons.epoch(0)])
    torch.testing.assert_close(refined.bn0.running_mean, refined.conv0(seen).mean((0, 2, 3)), rtol=1e-3, atol=1e-4)


def test_a_path_is_the_mean_of_its_steps(tmp_path: Path, pixels: Any, classes: Any) -> None:
    recipe = recipe_from({"student": {"batch": 20}, "refine": {"epochs": 3, "lr": 0.01}}, "r")
    data = Dataset(pixels, classes, tuple("abcdefghij"))
    lessons = Lessons(recipe, ImageBank(pixels, 4), np.eye(10, dtype=np.float32)[classes], classes)
    torch.manual_seed(0)
    start, weights = ResNet8(), []

    def after_each_epoch(event: Progress) -> None:
        state = torch.load(tmp_path / "refined-0.pt", weights_only=True)
        weights.append(state["network"]["fc.weight"].clone())

    reporter = Reporter(tmp_path / "log.jsonl", after_each_epoch)
    end = refine_path(recipe, 0, start, lessons, data, tmp_path, reporter)  # one step per epoch
    assert len(weights) == 3
    torch.testing.assert_close(end.fc.weight, torch.stack(weights).mean(0))
