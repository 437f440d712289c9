"""Builds the float graphs of networks to train, with random first weights.

Layers are numbered by convolutions: conv3, its batch norm bn3, the ReLU relu3 or the addition add3 after it. Names are
those of parameters ("conv3.weight") and of the graph's layers.
"""

from collections.abc import Sequence

import numpy as np
from torch import nn

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Add, BatchNorm, Conv, Dense, Float32, FloatLayer, GlobalAverage, MaxPool, Relu
from edgemeta.model.tasks import Classification, Task


class NetworkBuilder:
    """A growing list of layers; each method appends some, and returns the last. Without a width the input is square.

    Weights are drawn from PyTorch's generator, in the order of the layers.
    """

    def __init__(self, height: int, width: int | None = None) -> None:
        self.size = height, width or height
        self.layers: list[FloatLayer] = []
        self.convolutions = 0

    def add(self, layer: FloatLayer) -> str:
        """Append a layer."""
        self.layers.append(layer)
        return layer.name

    def convolution(self, x: str, cin: int, cout: int, kernel: int, stride: int, groups: int = 1) -> str:
        """Append a convolution without bias, padded by kernel // 2, and its batch norm."""
        number = self.convolutions
        self.convolutions += 1
        drawn = nn.Conv2d(cin, cout, kernel, groups=groups, bias=False)
        nn.init.kaiming_normal_(drawn.weight, mode="fan_out", nonlinearity="relu")
        pad = (kernel // 2,) * 4
        self.add(
            Conv(
                f"conv{number}",
                x,
                weights=filters(drawn),
                bias=None,
                stride=(stride, stride),
                padding=pad,
                groups=groups,
            )
        )
        zeros, ones = np.zeros(cout, np.float32), np.ones(cout, np.float32)
        return self.add(BatchNorm(f"bn{number}", f"conv{number}", ones, zeros, zeros, ones))

    def relu(self, x: str, ceiling: float | None = None) -> str:
        """Append a ReLU, named after the newest convolution."""
        return self.add(Relu(f"relu{self.convolutions - 1}", x, ceiling))

    def relu_to_6(self, x: str) -> str:
        """Append a ReLU limited to 6."""
        return self.relu(x, 6.0)

    def join(self, a: str, b: str) -> str:
        """Append the addition of two layers."""
        return self.add(Add(f"add{self.convolutions - 1}", (a, b)))

    def max_pool(self, name: str, x: str) -> str:
        """Append the maximum of 2x2."""
        return self.add(MaxPool(name, x, kernel=(2, 2), stride=(2, 2)))

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> str:
        """Append a dense layer."""
        drawn = nn.Linear(inputs, outputs)
        return self.add(Dense(name, x, weights=drawn.weight.detach().numpy(), bias=drawn.bias.detach().numpy()))

    def classifier(self, name: str, x: str, channels: int, classes: int, hidden: Sequence[int] = ()) -> FloatModel:
        """The graph with the global average "pool", dense layers of `hidden` neurons and a ReLU each, and "fc"."""
        x = self.add(GlobalAverage("pool", x))
        for number, neurons in enumerate(hidden):
            x = self.dense(f"dense{number}", x, channels, neurons)
            x = self.add(Relu(f"dense_relu{number}", x))
            channels = neurons
        x = self.dense("fc", x, channels, classes)
        return self.graph(name, (x,), Classification(tuple(map(str, range(classes)))))

    def graph(self, name: str, outputs: tuple[str, ...], task: Task) -> FloatModel:
        """The graph of all layers."""
        return FloatModel(name, (*self.size, 3), tuple(self.layers), outputs, task)


def filters(drawn: nn.Conv2d) -> Float32:
    """The weights of a convolution, [O, KH, KW, I / groups]."""
    weights: Float32 = np.ascontiguousarray(drawn.weight.detach().numpy().transpose(0, 2, 3, 1))
    return weights
