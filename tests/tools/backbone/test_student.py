"""The backbone begins as ResNet-8 to the last bit; frozen stages stay as they are."""

import numpy as np
import pytest
import torch

from edgemeta.model.float_file import load_float_model
from edgemeta.model.float_reference import logits
from edgemeta.model.zoo import find
from edgemeta.toolchain.train.batches import network_input
from tools.backbone.recipe import BackboneRecipe
from tools.backbone.student import Student


def test_before_the_training_it_is_resnet8(recipe: BackboneRecipe) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (4, 32, 32, 3), np.uint8)
    student = Student(recipe).eval()
    with torch.no_grad():
        found = student(network_input(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))).numpy()
    wanted = logits(load_float_model(find("resnet8-cifar10-float")), pixels)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_a_step_changes_all_but_the_frozen_stage(recipe: BackboneRecipe) -> None:
    student = Student(recipe).train()
    before = {name: value.clone() for name, value in student.state_dict().items()}
    learnt = [parameter for parameter in student.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(learnt, lr=0.1)
    for _ in range(2):  # the further blocks' first convolutions have no gradient while they add nothing
        logits_, maps = student.imitate(torch.rand(4, 3, 32, 32))
        (logits_.square().mean() + sum(each.square().mean() for each in maps)).backward()
        optimizer.step()
    changed = {
        name.split(".")[1]
        for name, value in student.network.state_dict(prefix="network.").items()
        if not torch.equal(before[name], value)
    }
    weighty = {layer.name for layer in student.network.layers if student.network.get_submodule(layer.name).state_dict()}
    frozen = {"conv0", "bn0", "conv1", "bn1", "conv2", "bn2"}
    assert changed == weighty - frozen


def test_maps_have_the_imitations_grids(recipe: BackboneRecipe) -> None:
    logits_, maps = Student(recipe).imitate(torch.zeros(2, 3, 32, 32))
    assert tuple(logits_.shape) == (2, 10)
    assert [tuple(each.shape) for each in maps] == [(2, 4, 8, 8), (2, 6, 4, 4)]


def test_deviations_are_of_the_measured_channels(recipe: BackboneRecipe) -> None:
    rng, student = np.random.default_rng(0), Student(recipe)
    batches = [
        [torch.tensor(rng.normal(5, 2, (50, c, g, g)), dtype=torch.float32) for c, g in ((4, 8), (6, 4))]
        for _ in range(3)
    ]
    student.measure(batches)
    all_a = torch.cat([batch[0] for batch in batches])
    found = student.in_deviations([all_a, torch.full((1, 6, 4, 4), 1e6)])
    assert found[0].mean().item() == pytest.approx(0, abs=0.01)
    assert found[0].std().item() == pytest.approx(1, abs=0.01)
    assert (found[1] == 6).all()
