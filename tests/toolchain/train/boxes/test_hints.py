"""The maps of features to a teacher's learn what is linear in them, and no channel counts more than another."""

import pytest
import torch

from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.boxes.hints import Hints, features
from edgemeta.toolchain.train.boxes.network import GridDesign, grid_network
from edgemeta.toolchain.train.boxes.recipe import BoxRecipe


def grids(channels: int, seed: int) -> list[torch.Tensor]:
    """Features of two grids."""
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(2, channels, side, side, generator=draw) for side in (8, 4)]


def test_maps_learn_what_is_linear_in_the_features() -> None:
    torch.manual_seed(1)
    ours, matrix = grids(6, 1), torch.randn(5, 6)
    theirs = [torch.einsum("oc,bchw->bohw", matrix, each) * 40 + 7 for each in ours]
    hints = Hints(((6, 5), (6, 5)))
    optimizer = torch.optim.Adam(hints.parameters(), lr=0.05)
    first = hints.loss(ours, theirs).item()
    for _ in range(150):
        optimizer.zero_grad()
        loss = hints.loss(ours, theirs)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert first > 0.5
    assert loss.item() < 0.01


def test_the_size_of_a_channel_does_not_matter() -> None:
    torch.manual_seed(2)
    hints, ours, theirs = Hints(((6, 5), (6, 5))), grids(6, 1), grids(5, 2)
    factors = torch.tensor([0.9, 1.1, 1.0, 2.0, 0.5])[None, :, None, None]
    changed = [each * factors - 3 for each in theirs]
    assert hints.loss(ours, changed).item() == pytest.approx(hints.loss(ours, theirs).item(), rel=1e-4)
    still = [each * torch.tensor([0.0, 1, 1, 1, 1])[None, :, None, None] for each in theirs]
    assert torch.isfinite(hints.loss(ours, still))


def test_features_are_what_the_last_convolutions_read() -> None:
    network: TorchNetwork = grid_network(GridDesign((64, 64), 0.25), ("cat",))
    read = features(network, network.outputs[1::2])
    assert list(read.values()) == [16, 24, 32]
    found = network.values(torch.zeros(1, 3, 64, 64), tuple(read))
    assert [tuple(each.shape[1:]) for each in found] == [(16, 8, 8), (24, 4, 4), (32, 2, 2)]


def test_views_of_the_first_epochs_are_small() -> None:
    recipe = BoxRecipe(epochs=10, small=0.6, small_size=0.7)
    whole, small = (288, 384), (192, 256)
    assert [recipe.size(whole, epoch) for epoch in (0, 5, 6, 9)] == [small, small, whole, whole]
    assert recipe.size((64, 320), 0) == (32, 224)
    assert BoxRecipe(epochs=10, small=0.0).size(whole, 0) == whole
