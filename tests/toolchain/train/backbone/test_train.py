"""The training: it continues exactly, learns, and its float model computes what the network does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemeta.toolchain.data.dataset import CIFAR10_LABELS
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.float_model.file import load_float_model, save_float_model
from edgemeta.toolchain.float_model.forward import logits
from edgemeta.toolchain.train.backbone.export import SIDE, export_backbone
from edgemeta.toolchain.train.backbone.recipe import BackboneRecipe
from edgemeta.toolchain.train.backbone.train import Material, scaled_to, train_backbone

FALLEN = 0.75
"""Of the first step's loss. The pictures are noise, so what can be learnt is the guide's maps."""


@pytest.mark.gate("four seconds of training, three times")
def test_a_run_continues_exactly_and_is_bound_to_its_pictures(
    guide_file: Path, recipe: BackboneRecipe, material: Material, tmp_path: Path
) -> None:
    constant = replace(recipe, decay=1e-9)  # the rate of a shorter run would fall earlier
    whole = train_backbone(constant, material, guide_file, tmp_path / "whole")
    train_backbone(replace(constant, epochs=1), material, guide_file, tmp_path / "parts")
    parts = train_backbone(constant, material, guide_file, tmp_path / "parts")
    assert all(torch.equal(value, parts.state_dict()[name]) for name, value in whole.state_dict().items())
    assert len((tmp_path / "parts" / "log.jsonl").read_text().splitlines()) == 2
    material_with_less = Material.__new__(Material)
    material_with_less.__dict__ = {**material.__dict__, "photographs": material.photographs[:1]}
    with pytest.raises(CheckpointError, match="made with other training data"):
        train_backbone(constant, material_with_less, guide_file, tmp_path / "parts")
    with pytest.raises(CheckpointError, match="made with another recipe"):
        train_backbone(replace(constant, lr=0.5), material, guide_file, tmp_path / "parts")


@pytest.mark.gate("five seconds of training")
def test_the_loss_falls(guide_file: Path, recipe: BackboneRecipe, material: Material, tmp_path: Path) -> None:
    losses: list[float] = []
    recipe = replace(recipe, steps=4, epochs=5, lr=0.004)
    train_backbone(recipe, material, guide_file, tmp_path, lambda event: losses.append(event.loss or 0))
    assert losses[-1] < FALLEN * losses[0]


def test_the_float_model_is_the_network_and_says_where_it_comes_from(
    guide_file: Path, recipe: BackboneRecipe, material: Material, tmp_path: Path
) -> None:
    pupil = train_backbone(replace(recipe, epochs=1), material, guide_file, tmp_path)
    file = tmp_path / "float.safetensors"
    save_float_model(export_backbone(pupil, recipe, material, guide_file, CIFAR10_LABELS), file)
    model = load_float_model(file)
    assert model.input_shape == (SIDE, SIDE, 3)
    assert model.labels == CIFAR10_LABELS
    assert model.provenance["teach"] == {"side": SIDE, "grids": dict.fromkeys(pupil.network.ends[1:], 4)}
    assert "Apache-2.0" in str(model.provenance["imitates"])
    assert "without labels" in str(model.provenance["unlabelled"])
    pixels = scaled_to(material.held_out[:2], SIDE)
    x = (torch.from_numpy(pixels.transpose(0, 3, 1, 2).astype(np.float32)) - 128) / 128
    with torch.no_grad():
        np.testing.assert_allclose(logits(model, pixels), pupil(x).numpy(), rtol=1e-3, atol=1e-3)
