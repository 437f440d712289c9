"""What a detector learns from its teacher's features: they know far more than the labels of the pictures at hand.

Where both networks end their grids, a 1x1 convolution maps the trained network's features to those of the teacher
(hints, Romero et al. 2015), which know the 80 classes and the 118,000 pictures that the teacher has seen. The maps
belong to the training alone: no model file has them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgemeta.toolchain.torch_network import TorchNetwork

_LEAST_SPREAD = 0.1
"""Channels of the teacher that move less than this share of the others are not made as large as them."""


class Hints(nn.Module):
    """Maps of features to a teacher's, grid by grid.

    widths: channels of both, of each grid.
    """

    def __init__(self, widths: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(ours, theirs, 1) for ours, theirs in widths)

    def loss(self, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
        """Mean squared distance to the teacher's features, whose channels have mean 0 and variance 1 in the batch.

        ours, theirs: [B, C, H, W] of each grid. A scalar: 1 for maps that know nothing.
        """
        apart = []
        for each, mine, given in zip(self.maps, ours, theirs, strict=True):
            given = given.float()
            spread, mean = torch.std_mean(given, (0, 2, 3), keepdim=True)
            aim = (given - mean) / spread.clamp(min=_LEAST_SPREAD * float(spread.mean()))
            apart.append((each(mine).float() - aim).square().mean())
        return torch.stack(apart).mean()


def features(network: TorchNetwork, outputs: Sequence[str]) -> dict[str, int]:
    """Tensors that the convolutions `outputs` read, and their channels; each once, in their order."""
    read = {layer.name: layer.sources[0] for layer in network.layers}
    modules = {name: network.get_submodule(network.module_names[name]) for name in outputs}
    return {read[name]: int(module.get_parameter("weight").shape[1]) for name, module in modules.items()}
