"""YOLOv3-tiny (Redmon and Farhadi 2018) as it is trained here: two grids of cells, three anchors each.

It differs from the published network in what integers like: ReLU instead of leaky ReLU, and no max-pooling of stride 1.
Its input is float [B, 3, S, S] (channels first) holding (pixel - 128) / 128, S a multiple of 32.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Concat, Conv, Upsample
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.network_builder import NetworkBuilder, filters

STRIDES = (32, 16)
"""Pixels from cell to cell of the two grids."""
ANCHORS = 3
"""Of each grid."""
PARTS = ("boxes", "objectness", "classes")

_FIRST_SCORE = 0.01
"""Objectness and class scores of a fresh network: nearly all cells have no object."""


def tiny_yolo(size: int, width: float, task: Detection) -> TorchNetwork:
    """The network of a task of decoding "yolov3" whose levels have the grids of STRIDES and ANCHORS anchors each.

    It gives boxes, objectness and classes [B, C, H, W] of each level, the coarse one first.
    """
    net = NetworkBuilder(size)
    channels = [max(1, round(base * width)) for base in (16, 32, 64, 128, 256, 512, 1024)]
    x, cin = INPUT, 3
    for number, cout in enumerate(channels):
        x = net.relu(net.convolution(x, cin, cout, 3, 1))
        if number == 4:
            fine = x
        if number < 5:
            x = net.max_pool(f"pool{number}", x)
        cin = cout
    x = net.relu(net.convolution(x, cin, channels[4], 1, 1))
    coarse = net.relu(net.convolution(x, channels[4], channels[5], 3, 1))
    _add_head(net, coarse, channels[5], task, task.levels[0])
    x = net.relu(net.convolution(x, channels[4], channels[3], 1, 1))
    x = net.add(Concat("joined", (net.add(Upsample("doubled", x, factor=(2, 2))), fine)))
    x = net.relu(net.convolution(x, channels[3] + channels[4], channels[4], 3, 1))
    _add_head(net, x, channels[4], task, task.levels[1])
    outputs = tuple(name for level in task.levels for name in outputs_of(level))
    return TorchNetwork(net.graph("tiny-yolo", outputs, task))


def _add_head(net: NetworkBuilder, x: str, channels: int, task: Detection, level: DetectionLevel) -> None:
    counts = (4 * ANCHORS, ANCHORS, ANCHORS * len(task.labels))
    for name, part, count in zip(outputs_of(level), PARTS, counts, strict=True):
        drawn = nn.Conv2d(channels, count, 1)
        nn.init.normal_(drawn.weight, std=0.01)
        bias = 0.0 if part == "boxes" else math.log(_FIRST_SCORE / (1 - _FIRST_SCORE))
        net.add(Conv(name, x, weights=filters(drawn), bias=np.full(count, bias, np.float32)))


def outputs_of(level: DetectionLevel) -> tuple[str, str, str]:
    """Names of a level's boxes, objectness and classes."""
    assert level.boxes is not None
    assert level.objectness is not None
    return level.boxes, level.objectness, level.classes


def task_of(labels: tuple[str, ...], anchors: list[tuple[float, float]]) -> Detection:
    """The task for 2 x ANCHORS anchors, width and height in pixels, the smallest first."""
    groups = zip(STRIDES, (anchors[ANCHORS:], anchors[:ANCHORS]), strict=True)
    levels = tuple(
        DetectionLevel(f"boxes{stride}", f"classes{stride}", f"objectness{stride}", tuple(some))
        for stride, some in groups
    )
    return Detection(labels, "yolov3", levels)


def by_anchor(output: Tensor) -> Tensor:
    """[B, A, H, W, n] of an output [B, A n, H, W], A = ANCHORS; in float32."""
    batch, channels, height, width = output.shape
    return output.float().reshape(batch, ANCHORS, channels // ANCHORS, height, width).permute(0, 1, 3, 4, 2)


def decoded(numbers: Tensor, anchors: Tensor, stride: int) -> Tensor:
    """Boxes x0, y0, x1, y1 in pixels, [B, A, H, W, 4], of numbers [B, A, H, W, 4], as decoding "yolov3" has them.

    anchors: [A, 2]. Exponents are limited to 8, so that a wild network has finite boxes while it is trained.
    """
    rows, columns = torch.meshgrid(torch.arange(numbers.shape[2]), torch.arange(numbers.shape[3]), indexing="ij")
    centre = (torch.stack([columns, rows], -1) + torch.sigmoid(numbers[..., :2])) * stride
    half = torch.exp(numbers[..., 2:].clamp(max=8)) * anchors[:, None, None] / 2
    return torch.cat([centre - half, centre + half], -1)
