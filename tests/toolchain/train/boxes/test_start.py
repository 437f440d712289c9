"""A training that starts from integers begins with what these compute."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.file import load
from edgemeta.model.reference import run
from edgemeta.model.zoo import DEFAULT, find
from edgemeta.plugins.drawn.crowd import CrowdedScenes
from edgemeta.toolchain.data.boxes.pictures import ReadPicture, ReadPictures
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.boxes.network import GridDesign, grid_network
from edgemeta.toolchain.train.boxes.start import load_start

SMALL = 160
LABELS = load(find(DEFAULT)).labels


def pictures(count: int, side: int, seed: int = 1) -> NDArray[np.uint8]:
    """Drawn scenes [N, H, W, 3], R, G, B."""
    scenes = CrowdedScenes(seed, side)
    return np.stack([scenes.draw(number).pixels[..., ::-1] for number in range(count)])


def started(side: int, labels: tuple[str, ...] = LABELS, name: str = DEFAULT) -> TorchNetwork:
    """A network with the first weights of the shipped one."""
    torch.manual_seed(1)
    none = np.zeros(0, np.int64)
    known = np.ones(len(labels), np.bool_)
    read = [ReadPicture(each, np.zeros((0, 4), np.float32), none, none > 0, known) for each in pictures(4, side)]
    network = grid_network(GridDesign((side, side)), labels)  # computes images of any shape
    load_start(network, name, ReadPictures(labels, tuple(read)))
    return network


def outputs(network: TorchNetwork, x: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    with torch.no_grad():
        found = network(network_input(np.ascontiguousarray(x.transpose(0, 3, 1, 2))))
    return [each.numpy().transpose(0, 2, 3, 1) for each in found]


def test_it_begins_with_what_the_integers_compute() -> None:
    model = load(find(DEFAULT))
    height, width, _ = model.input.shape
    x = pictures(1, width, 2)[:, :height]
    image = model.preprocessing.table[np.arange(3) % len(model.preprocessing.table), x[0]]
    for name, ours, theirs in zip(
        model.outputs, outputs(started(320).eval(), x), run(model, image[np.newaxis]), strict=True
    ):
        real = theirs * model.steps(name)
        assert np.abs(ours - real).mean() < 0.05 * np.abs(real - real.mean()).mean(), name


def test_training_nearly_begins_there() -> None:
    network, x = started(SMALL), pictures(8, SMALL, 3)
    wanted, found = outputs(network.eval(), x), outputs(network.train(), x)
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9


def test_labels_that_differ_begin_anew() -> None:
    drawn, ours = grid_network(GridDesign((SMALL, SMALL)), ("gate",)), started(SMALL, ("gate",))
    weights = ours.state_dict()
    assert weights["classes8.weight"].abs().max() < 0.1
    assert (weights["classes8.bias"] == drawn.state_dict()["classes8.bias"]).all()
    assert not (weights["boxes8.weight"] == drawn.state_dict()["boxes8.weight"]).all()


def test_another_network_is_refused() -> None:
    with pytest.raises(ModelError, match=r"resnet8-cifar10: conv1.weight has shape \(16, 16, 3, 3\), expected \(32,"):
        started(SMALL, name="resnet8-cifar10")
