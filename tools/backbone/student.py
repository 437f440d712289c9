"""The network in training: the backbone and, for each imitated map, a 1x1 convolution that is left behind."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import INPUT
from edgemeta.model.zoo import find
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.network_builder import NetworkBuilder
from tools.backbone.recipe import CLASSES, BackboneRecipe

WIDTHS = (16, 32, 64)


class Backbone(TorchNetwork):
    """A residual network as ResNet-8, with more blocks; those that ResNet-8 lacks begin as the identity.

    ends: names of the last layers of the stages.
    """

    def __init__(self, recipe: BackboneRecipe, size: int) -> None:
        net = NetworkBuilder(size)
        ends: list[str] = []
        old, new = [0], []  # convolutions of ResNet-8, in their order, and the last ones of further blocks
        x, cin = net.relu(net.convolution(INPUT, 3, WIDTHS[0], 3, 1)), WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            for block in range(recipe.blocks[stage]):
                stride, first = 2 if stage and not block else 1, net.convolutions
                side = x if stride == 1 else net.convolution(x, cin, width, 1, stride)
                inner = net.relu(net.convolution(x, cin, width, 3, stride))
                x, cin = net.relu(net.join(side, net.convolution(inner, width, width, 3, 1))), width
                if block:
                    new.append(net.convolutions - 1)
                else:
                    old += range(first, net.convolutions)
            ends.append(x)
        super().__init__(net.classifier(recipe.name, x, cin, CLASSES))
        self.ends = tuple(ends)
        self._begin(recipe.start, old, new)

    def layers_to(self, stage: int) -> list[str]:
        """Names of the layers up to the end of a stage, counted from 1."""
        names = [layer.name for layer in self.layers]
        return names[: names.index(self.ends[stage - 1]) + 1] if stage else []

    def _begin(self, start: str, old: list[int], new: list[int]) -> None:
        """Set the weights: ResNet-8's where it has the layer; a further block adds nothing at first."""
        given, state = TorchNetwork(load_float_model(find(start))).state_dict(), self.state_dict()
        renumbered = {f"{kind}{number}": f"{kind}{i}" for i, number in enumerate(old) for kind in ("conv", "bn")}
        for name in state:
            layer, _, parameter = name.partition(".")
            source = f"{renumbered.get(layer, layer if layer == 'fc' else '')}.{parameter}"
            if source in given:
                state[name] = given[source]
        for number in new:
            state[f"bn{number}.weight"] = torch.zeros_like(state[f"bn{number}.weight"])
        self.load_state_dict(state)


class Student(nn.Module):
    """The backbone `network` with the 1x1 convolutions `adapters`, one for each imitation.

    Buffers hold mean and deviation, [1, C, 1, 1], of each imitated map, set once by `measure`.
    """

    def __init__(self, recipe: BackboneRecipe) -> None:
        super().__init__()
        self.imitations = recipe.imitations
        self.network = Backbone(recipe, recipe.size)
        self._frozen = self.network.layers_to(recipe.frozen)
        self.adapters = nn.ModuleList([nn.Conv2d(WIDTHS[each.stage - 1], each.channels, 1) for each in self.imitations])
        for name in self._frozen:
            self.network.get_submodule(name).requires_grad_(False)
        for number, each in enumerate(self.imitations):
            self.register_buffer(f"mean{number}", torch.zeros(1, each.channels, 1, 1))
            self.register_buffer(f"deviation{number}", torch.ones(1, each.channels, 1, 1))

    def train(self, mode: bool = True) -> "Student":
        """As nn.Module; batch norms of frozen stages always keep their statistics."""
        super().train(mode)
        for name in self._frozen:
            self.network.get_submodule(name).eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, size, size]."""
        logits: Tensor = self.network(x)
        return logits

    def imitate(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [B, classes], and for each imitation what the backbone makes of the map, in deviations."""
        names = [self.network.ends[each.stage - 1] for each in self.imitations]
        *sources, logits = self.network.values(x, (*names, "fc"))
        maps = []
        for adapter, each, source in zip(self.adapters, self.imitations, sources, strict=True):
            window = source.shape[-1] // each.rows
            maps.append(adapter(functional.avg_pool2d(source, window) if window > 1 else source))
        return logits.flatten(1), maps

    def measure(self, maps: list[list[Tensor]]) -> None:
        """Set mean and deviation of every channel from several batches of the teacher's maps."""
        for number in range(len(self.adapters)):
            values = torch.cat([batch[number] for batch in maps])
            self.get_buffer(f"mean{number}").copy_(values.mean((0, 2, 3), keepdim=True))
            self.get_buffer(f"deviation{number}").copy_(values.std((0, 2, 3), keepdim=True) + 1e-3)

    def in_deviations(self, maps: list[Tensor]) -> list[Tensor]:
        """The teacher's maps in deviations of their channels, at most six."""
        return [
            ((values - self.get_buffer(f"mean{number}")) / self.get_buffer(f"deviation{number}")).clamp(-6, 6)
            for number, values in enumerate(maps)
        ]
