"""The teacher: cut off, it computes the maps that the whole network has there."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgemeta.toolchain.errors import ImportedFileError
from tools.backbone.recipe import IMITATIONS, BackboneRecipe, Imitation
from tools.backbone.teacher import Teacher


def test_maps_are_those_of_the_network_in_pytorch(teacher_file: Path, recipe: BackboneRecipe) -> None:
    import onnx

    views = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(str(teacher_file)).graph.initializer}
    x = torch.from_numpy(views[..., ::-1].transpose(0, 3, 1, 2).astype(np.float32))  # planes B, G, R
    a = functional.conv2d(x, torch.tensor(weights["wa"]), stride=2, padding=1)
    b = functional.conv2d(a, torch.tensor(weights["wb"]), stride=2, padding=1)
    found = Teacher(teacher_file, recipe.imitations, 32).maps(views)
    assert [tuple(each.shape) for each in found] == [(3, 4, 8, 8), (3, 6, 4, 4)]
    halved = [functional.interpolate(m, scale_factor=0.5, mode="bilinear", antialias=True) for m in (a, b)]
    for mine, wanted in zip(found, halved, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-4)


def test_two_stages_may_imitate_one_map(teacher_file: Path) -> None:
    twice = (Imitation("b", 6, 2, 8, 1.0), Imitation("b", 6, 3, 4, 1.0))
    fine, coarse = Teacher(teacher_file, twice, 32).maps(np.zeros((1, 32, 32, 3), np.uint8))
    assert (fine.shape[-1], coarse.shape[-1]) == (8, 4)


def test_a_file_without_the_map_or_that_is_no_network_is_refused(teacher_file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ImportedFileError, match=r"teacher\.onnx: has no tensor input\.175, expected the teacher of the"
    ):
        Teacher(teacher_file, IMITATIONS, 32)
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no network")
    with pytest.raises(ImportedFileError, match="cannot be read as an ONNX file"):
        Teacher(damaged, IMITATIONS, 32)


def test_the_recipes_maps_are_in_the_real_file(shared_data: Path) -> None:
    file = shared_data / "networks" / "yolox_nano.onnx"
    maps = Teacher(file, IMITATIONS, BackboneRecipe.view).maps(np.full((1, 96, 96, 3), 114, np.uint8))
    assert [tuple(each.shape[1:]) for each in maps] == [(i.channels, i.rows, i.rows) for i in IMITATIONS]
