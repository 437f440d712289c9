"""The training: it continues exactly, learns, and its float model computes what the network does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.float_reference import logits
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS
from edgemeta.toolchain.errors import CheckpointError
from tools.backbone.export import SIDE, export_backbone
from tools.backbone.recipe import BackboneRecipe
from tools.backbone.train import Pictures, scaled_to, train_backbone

FALLEN = 0.75
"""Of the first step's loss. The pictures are noise, so what can be learnt is the teacher's maps."""


@pytest.mark.gate("four seconds of training, three times")
def test_a_run_continues_exactly_and_is_bound_to_its_pictures(
    teacher_file: Path, recipe: BackboneRecipe, pictures: Pictures, tmp_path: Path
) -> None:
    constant = replace(recipe, decay=1e-9)  # the rate of a shorter run would fall earlier
    whole = train_backbone(constant, pictures, teacher_file, tmp_path / "whole")
    train_backbone(replace(constant, epochs=1), pictures, teacher_file, tmp_path / "parts")
    parts = train_backbone(constant, pictures, teacher_file, tmp_path / "parts")
    assert all(torch.equal(value, parts.state_dict()[name]) for name, value in whole.state_dict().items())
    assert len((tmp_path / "parts" / "log.jsonl").read_text().splitlines()) == 2
    pictures_with_less = Pictures.__new__(Pictures)
    pictures_with_less.__dict__ = {**pictures.__dict__, "photographs": pictures.photographs[:1]}
    with pytest.raises(CheckpointError, match="made with other training data"):
        train_backbone(constant, pictures_with_less, teacher_file, tmp_path / "parts")
    with pytest.raises(CheckpointError, match="made with another recipe"):
        train_backbone(replace(constant, lr=0.5), pictures, teacher_file, tmp_path / "parts")


@pytest.mark.gate("five seconds of training")
def test_the_loss_falls(teacher_file: Path, recipe: BackboneRecipe, pictures: Pictures, tmp_path: Path) -> None:
    losses: list[float] = []
    recipe = replace(recipe, steps=4, epochs=5, lr=0.004)
    train_backbone(recipe, pictures, teacher_file, tmp_path, lambda event: losses.append(event.loss or 0))
    assert losses[-1] < FALLEN * losses[0]


def test_the_float_model_is_the_network_and_says_where_it_comes_from(
    teacher_file: Path, recipe: BackboneRecipe, pictures: Pictures, tmp_path: Path
) -> None:
    student = train_backbone(replace(recipe, epochs=1), pictures, teacher_file, tmp_path)
    file = tmp_path / "float.safetensors"
    save_float_model(export_backbone(student, recipe, pictures, teacher_file, CIFAR10_LABELS), file)
    model = load_float_model(file)
    assert model.input_shape == (SIDE, SIDE, 3)
    assert model.labels == CIFAR10_LABELS
    assert model.provenance["teach"] == {"side": SIDE, "grids": dict.fromkeys(student.network.ends[1:], 4)}
    assert "Apache-2.0" in str(model.provenance["imitates"])
    assert "without labels" in str(model.provenance["unlabelled"])
    pixels = scaled_to(pictures.held_out[:2], SIDE)
    x = (torch.from_numpy(pixels.transpose(0, 3, 1, 2).astype(np.float32)) - 128) / 128
    with torch.no_grad():
        np.testing.assert_allclose(logits(model, pixels), student(x).numpy(), rtol=1e-3, atol=1e-3)
