"""PyTorch networks as a list of named layers, each reading named earlier ones: what an exporter can walk.

Layers are numbered by convolutions: conv3, its batch norm bn3, the ReLU relu3 or the addition add3 after it. Names are
those of parameters ("conv3.weight") and of the exported graph's layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

INPUT = "input"


@dataclass(frozen=True)
class Link:
    """A layer of a chain: the module of this name, applied to the outputs of other layers (or "input")."""

    name: str
    inputs: tuple[str, ...]


class Sum(nn.Module):
    """a + b."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum of two tensors of one shape."""
        return a + b


class Mean(nn.Module):
    """Global average."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, C], the mean over rows and columns of x [B, C, H, W]."""
        return x.mean((2, 3))


class Concatenation(nn.Module):
    """The channels of all inputs, one after the other."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """[B, sum of C, H, W] of [B, C, H, W] each."""
        return torch.cat(inputs, 1)


class StridedDepthwise(nn.Conv2d):
    """A depthwise convolution of stride 2, in float32 also where the network computes in bfloat16.

    PyTorch 2.13 has no fast gradient of it in bfloat16 on x86-64.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H / 2, W / 2] of x [B, C, H, W], in the type of x."""
        with torch.autocast("cpu", enabled=False):
            return super().forward(x.float()).to(x.dtype)


class StridedPointwise(nn.Conv2d):
    """A 1x1 convolution of a stride: one of stride 1, of the rows and columns that it reads.

    PyTorch 2.13 writes out of bounds in the gradient of a strided one whose inputs, channels last, do not fill a block
    of its library: 8 of them with AVX2 (https://github.com/uxlfoundation/oneDNN/issues/6035), at most 16 anywhere.
    """

    MOST_INPUTS = 15

    def forward(self, x: Tensor) -> Tensor:
        """[B, C', H / stride, W / stride] of x [B, C, H, W]."""
        rows, columns = self.stride
        return nn.functional.conv2d(x[:, :, ::rows, ::columns], self.weight, self.bias, groups=self.groups)


def _kind(cin: int, kernel: int, stride: int, groups: int) -> type[nn.Conv2d]:
    """The module of a convolution: PyTorch's own, where that is fast and right."""
    if stride > 1 and groups == cin:
        return StridedDepthwise
    if stride > 1 and kernel == 1 and cin <= StridedPointwise.MOST_INPUTS:
        return StridedPointwise
    return nn.Conv2d


class Doubling(nn.Module):
    """Every row and column twice."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, 2 H, 2 W] of x [B, C, H, W]."""
        return nn.functional.interpolate(x, scale_factor=2, mode="nearest")


class LinkedLayers(nn.Module):
    """A network of convolutions with batch norms, activations and what joins them; a subclass says what it gives.

    size: side of the square input in pixels. links: its layers in their order. `add` and the functions built on it
    append a layer and return its name.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.links: list[Link] = []
        self._last_reader: dict[str, Link] = {}
        self._convolutions = 0

    def values(self, x: Tensor, outputs: Sequence[str]) -> tuple[Tensor, ...]:
        """The outputs of these layers for x [B, 3, size, size]."""
        values = {INPUT: x}
        for link in self.links:
            values[link.name] = self.get_submodule(link.name)(*(values[name] for name in link.inputs))
            for name in set(link.inputs).difference(outputs):
                if self._last_reader[name] is link:  # an evaluation keeps no more tensors than it needs
                    del values[name]
        return tuple(values[name] for name in outputs)

    def add(self, name: str, module: nn.Module, *inputs: str) -> str:
        """Append a module that reads the outputs of `inputs`."""
        self.add_module(name, module)
        link = Link(name, inputs)
        self.links.append(link)
        self._last_reader |= dict.fromkeys(inputs, link)
        return name

    def convolution(self, x: str, cin: int, cout: int, kernel: int, stride: int, groups: int = 1) -> str:
        """Append a convolution without bias, padded by kernel // 2, and its batch norm."""
        number = self._convolutions
        self._convolutions += 1
        conv = _kind(cin, kernel, stride, groups)(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        self.add(f"conv{number}", conv, x)
        return self.add(f"bn{number}", nn.BatchNorm2d(cout), f"conv{number}")

    def relu(self, x: str) -> str:
        """Append a ReLU, named after the newest convolution."""
        return self.add(f"relu{self._convolutions - 1}", nn.ReLU(), x)

    def relu_to_6(self, x: str) -> str:
        """Append a ReLU limited to 6, named after the newest convolution."""
        return self.add(f"relu{self._convolutions - 1}", nn.ReLU6(), x)

    def join(self, a: str, b: str) -> str:
        """Append the addition of two layers."""
        return self.add(f"add{self._convolutions - 1}", Sum(), a, b)


class Chain(LinkedLayers):
    """A classification: the last layer, the dense "fc", gives the logits."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, size, size]."""
        return self.values(x, (self.links[-1].name,))[0]

    def classify(self, x: str, channels: int, classes: int, hidden: Sequence[int] = ()) -> None:
        """Append the global average "pool", dense layers of `hidden` neurons with a ReLU each, and the dense "fc"."""
        x = self.add("pool", Mean(), x)
        for number, neurons in enumerate(hidden):
            x = self.add(f"dense{number}", nn.Linear(channels, neurons), x)
            x = self.add(f"dense_relu{number}", nn.ReLU(), x)
            channels = neurons
        self.add("fc", nn.Linear(channels, classes), x)
