"""The network in training: the backbone and, for each map of the guide, a 1x1 convolution that is left behind."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.toolchain.train.backbone.recipe import CLASSES, BackboneRecipe
from edgemeta.toolchain.train.chain import INPUT, Chain
from edgemeta.toolchain.train.networks import Design, build


class Pupil(nn.Module):
    """The backbone `network` with the 1x1 convolutions `adapters`, one for each map of the guide.

    spread: buffers [1, C, 1, 1] of each of the guide's maps, mean and deviation, set once by `measure`.
    """

    def __init__(self, recipe: BackboneRecipe) -> None:
        super().__init__()
        self.guide = recipe.guide
        self.network: Chain = build(Design(CLASSES, recipe.size, "resnet", recipe.depth, recipe.width))
        self.stages = stage_ends(self.network)
        widths = [self.network.get_submodule(name.replace("relu", "bn")).state_dict()["weight"] for name in self.stages]
        pairs = zip(self.guide.stages, self.guide.channels, strict=True)
        self.adapters = nn.ModuleList([nn.Conv2d(len(widths[stage - 1]), count, 1) for stage, count in pairs])
        for number, count in enumerate(self.guide.channels):
            self.register_buffer(f"mean{number}", torch.zeros(1, count, 1, 1))
            self.register_buffer(f"deviation{number}", torch.ones(1, count, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, size, size]."""
        logits: Tensor = self.network(x)
        return logits

    def imitate(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [B, classes], and for each map of the guide what the backbone makes of it, in deviations."""
        values = {INPUT: x}
        for link in self.network.links:
            values[link.name] = self.network.get_submodule(link.name)(*(values[name] for name in link.inputs))
        maps = []
        for adapter, stage, rows in zip(self.adapters, self.guide.stages, self.guide.grids, strict=True):
            source = values[self.stages[stage - 1]]
            window = source.shape[-1] // rows
            maps.append(adapter(functional.avg_pool2d(source, window) if window > 1 else source))
        return values[self.network.links[-1].name], maps

    def measure(self, maps: list[list[Tensor]]) -> None:
        """Set mean and deviation of every channel from several batches of the guide's maps."""
        for number in range(len(self.adapters)):
            values = torch.cat([batch[number] for batch in maps])
            self.get_buffer(f"mean{number}").copy_(values.mean((0, 2, 3), keepdim=True))
            self.get_buffer(f"deviation{number}").copy_(values.std((0, 2, 3), keepdim=True) + 1e-3)

    def in_deviations(self, maps: list[Tensor]) -> list[Tensor]:
        """The guide's maps in deviations of their channels, at most six."""
        return [
            ((values - self.get_buffer(f"mean{number}")) / self.get_buffer(f"deviation{number}")).clamp(-6, 6)
            for number, values in enumerate(maps)
        ]


def stage_ends(network: Chain) -> tuple[str, ...]:
    """Names of the last ReLU of each of the three stages of a residual network."""
    ends = [link.name for link in network.links if link.name.startswith("relu") and link.inputs[0].startswith("add")]
    blocks = len(ends) // 3
    return tuple(ends[blocks * (stage + 1) - 1] for stage in range(3))
