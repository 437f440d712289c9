"""The detector that is trained on own pictures: dense convolutions, three grids of cells, no anchors, no objectness.

The backbone halves the image five times and has blocks of a 1x1 and a 3x3 convolution beside a shortcut (Redmon and
Farhadi 2018). The grids of 8, 16 and 32 pixels exchange what they know from coarse to fine and back by additions, which
cost less than concatenations. Each grid ends with one 3x3 convolution, and two of 1x1: four numbers of a box and a
number for each label. All activations are ReLU6, so that 8 bits have a step of at most 6 / 255.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch import nn

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Conv, Upsample
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.network_builder import NetworkBuilder, filters

Size: TypeAlias = tuple[int, int]
"""Height and width of an input in pixels, multiples of the coarsest stride."""

STRIDES = (8, 16, 32)
"""Pixels from cell to cell of the three grids."""

OVERLAP, LABEL_OVERLAP = 0.5, 0.75
"""Boxes of one label whose intersection over union is greater are one object. Of different labels: the second."""

_STAGES = ((32, 1), (64, 2), (128, 3), (256, 1))
"""Channels and blocks of the stages that halve the grid to 4, 8, 16 and 32 pixels."""
_STEM = 16
_NECK = (64, 96, 128)
"""Channels of the three grids behind the backbone."""
_FIRST_SCORE = 0.01
"""Scores of a fresh network: nearly all cells have no object."""


@dataclass(frozen=True)
class GridDesign:
    """Which network. size: of the input. width: factor on all channels."""

    size: Size = (320, 320)
    width: float = 1.0

    def channels(self, base: int) -> int:
        """`base` times the width, as a multiple of 8."""
        return max(8, round(base * self.width / 8) * 8)

    @property
    def name(self) -> str:
        """Name for files and messages."""
        height, width = self.size
        sides = f"-{height}" + ("" if width == height else f"x{width}")
        return "grids" + ("" if self.width == 1 else f"-w{self.width:g}") + sides


def grid_task(labels: tuple[str, ...]) -> Detection:
    """The task of the network's outputs."""
    levels = tuple(DetectionLevel(f"boxes{stride}", f"classes{stride}") for stride in STRIDES)
    return Detection(labels, "yolox", levels, overlap_threshold=OVERLAP, label_overlap=LABEL_OVERLAP)


def grid_network(design: GridDesign, labels: tuple[str, ...]) -> TorchNetwork:
    """The network with random first weights; it gives boxes and classes [B, C, H, W] of each grid, the finest first."""
    net = NetworkBuilder(*design.size)
    cin = design.channels(_STEM)
    x = net.relu_to_6(net.convolution(INPUT, 3, cin, 3, 2))
    ends = []
    for base, blocks in _STAGES:
        channels = design.channels(base)
        x = net.relu_to_6(net.convolution(x, cin, channels, 3, 2))
        for _ in range(blocks):
            x = _block(net, x, channels)
        ends.append((x, channels))
        cin = channels
    widths = [design.channels(base) for base in _NECK]
    grids = _exchanged(net, ends[1:], widths)
    task = grid_task(labels)
    for x, channels, level in zip(grids, widths, task.levels, strict=True):
        x = net.relu_to_6(net.convolution(x, channels, channels, 3, 1))
        _end(net, str(level.boxes), x, channels, 4, 0.0)
        _end(net, level.classes, x, channels, len(labels), math.log(_FIRST_SCORE / (1 - _FIRST_SCORE)))
    outputs = tuple(name for level in task.levels for name in (str(level.boxes), level.classes))
    return TorchNetwork(net.graph(design.name, outputs, task))


def _block(net: NetworkBuilder, x: str, channels: int) -> str:
    """A 1x1 convolution to half of the channels and a 3x3 one back, beside a shortcut."""
    inner = net.relu_to_6(net.convolution(x, channels, channels // 2, 1, 1))
    return net.relu_to_6(net.join(x, net.convolution(inner, channels // 2, channels, 3, 1)))


def _exchanged(net: NetworkBuilder, ends: list[tuple[str, int]], widths: list[int]) -> list[str]:
    """The grids, the fine one first, after each has added what the coarser and then what the finer one gives it."""
    down = [net.convolution(x, cin, width, 1, 1) for (x, cin), width in zip(ends, widths, strict=True)]
    down[-1] = net.relu_to_6(down[-1])
    for number in (1, 0):
        given = net.convolution(down[number + 1], widths[number + 1], widths[number], 1, 1)
        given = net.add(Upsample(f"doubled{STRIDES[number]}", given, factor=(2, 2)))
        joined = net.relu_to_6(net.join(down[number], given))
        down[number] = net.relu_to_6(net.convolution(joined, widths[number], widths[number], 3, 1))
    up = down[:1]
    for number in (1, 2):
        given = net.convolution(up[-1], widths[number - 1], widths[number], 3, 2)
        up.append(net.relu_to_6(net.join(down[number], given)))
    return up


def _end(net: NetworkBuilder, name: str, x: str, channels: int, outputs: int, bias: float) -> None:
    drawn = nn.Conv2d(channels, outputs, 1)
    nn.init.normal_(drawn.weight, std=0.01)
    net.add(Conv(name, x, weights=filters(drawn), bias=np.full(outputs, bias, np.float32)))
