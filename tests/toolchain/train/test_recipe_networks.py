"""The shipped recipes from training to integers: a few steps, export, quantization, the same integers on the cpu."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.quantize.auto import quantize_auto
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.train.recipe import find_recipe, load_recipe
from edgemeta.toolchain.train.run import train_network
from edgemeta.toolchain.train.start import ENTRY, described, design_of


@pytest.mark.gate("networks of 20 to 52 layers are trained and quantized, 15 s")
@pytest.mark.parametrize("name", ["resnet20-cifar10", "vgg16-cifar10", "mobilenetv2-cifar10", "alexnet-cifar10"])
def test_train_export_quantize_and_run(tmp_path: Path, pixels: Any, classes: Any, name: str) -> None:
    recipe = load_recipe(find_recipe(name))
    assert recipe.student.epochs >= 60
    assert recipe.labels[9] == "truck"
    small = replace(
        recipe,
        network=replace(recipe.network, width=0.25 if name.startswith("resnet") else 0.125),
        student=replace(recipe.student, epochs=2, batch=8, warmup_epochs=1.0, evaluate_every=1),
    )
    train = Dataset(
        np.tile(pixels, (2, 1, 1, 1)) + np.arange(2, dtype=np.uint8).repeat(20)[:, None, None, None],
        np.tile(classes, 2),
    )
    network = train_network(small, train, Dataset(pixels, classes), tmp_path)
    design = small.design(10)
    model = network.classification(name, recipe.labels, {ENTRY: described(design)})
    assert design_of(model, name) == design
    images = PreparedImages(model, ArrayFrames(pixels[:6]))
    integer = quantize_auto(model, images, ("minmax",)).model
    encode(integer)
    batch = np.concatenate(list(images))
    extremes = np.stack([np.full_like(batch[0], value) for value in (-128, 127)])
    for each in (batch, extremes):
        assert np.array_equal(integer_session(integer).run(each)[0], reference.run(integer, each)[0])
    assert torch.isfinite(network(torch.zeros(1, 3, 32, 32))).all()
