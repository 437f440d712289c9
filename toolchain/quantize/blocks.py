"""Groups the float graph into the layers of the integer network: batch norm and activation fused into their layer.

A convolution or dense layer includes a batch norm that is its only reader, then a ReLU that is the only reader of that;
an addition or mean includes its ReLU. A separate batch norm becomes a 1x1 depthwise convolution with that batch norm.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import BatchNorm, Conv, Dense, Float32, FloatLayer, Relu, Summing, Weighted

Core: TypeAlias = FloatLayer
"""Of these no block has a batch norm."""


@dataclass(frozen=True, eq=False)
class Block:
    """One future layer of the integer network.

    core: the layer; its name is the block's, and its inputs are names of blocks (or "input"). norm, relu: the fused
    layers. before: the float tensor before the activation (after the batch norm); after: the output float tensor.
    """

    core: Core
    norm: BatchNorm | None
    relu: Relu | None
    before: str
    after: str

    @property
    def name(self) -> str:
        """Name of the block and of its output tensor in the integer network."""
        return self.core.name

    @property
    def has_weights(self) -> bool:
        """Whether it is a convolution or a dense layer."""
        return isinstance(self.core, Weighted)

    @property
    def sums_channels(self) -> bool:
        """Whether it is a dense layer or a convolution of one group, which sum over all channels."""
        return isinstance(self.core, Dense) or (isinstance(self.core, Conv) and self.core.groups == 1)

    @property
    def is_depthwise(self) -> bool:
        """Whether it is a convolution of which each output reads one channel."""
        return isinstance(self.core, Conv) and self.core.groups > 1 and self.core.weights.shape[3] == 1

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the blocks (or "input") that it reads."""
        return self.core.sources


def blocks_of(model: FloatModel) -> tuple[Block, ...]:
    """Group the layers of a checked graph; the order is preserved."""
    made_by: dict[str, str] = {"input": "input"}  # float tensor -> block that computes it
    joined: set[str] = set()
    blocks: list[Block] = []
    for layer in model.layers:
        if layer.name in joined:
            continue
        block = renamed(layer, layer.name, tuple(made_by[name] for name in layer.sources))
        core, norm = block.core, block.norm
        before = after = layer.name
        follower = model.after.get(after)
        if isinstance(core, Weighted) and norm is None and isinstance(follower, BatchNorm):
            norm, before, after = follower, follower.name, follower.name
            joined.add(follower.name)
        relu, follower = None, model.after.get(after)
        if isinstance(core, Summing) and isinstance(follower, Relu):
            relu, after = follower, follower.name
            joined.add(follower.name)
        made_by[after] = core.name
        blocks.append(Block(core, norm, relu, before, after))
    return tuple(blocks)


def renamed(layer: FloatLayer, name: str, inputs: tuple[str, ...]) -> Block:
    """A block of one layer, under another name and with other names of its inputs."""
    if isinstance(layer, BatchNorm):
        channels = len(layer.gamma)
        unit = Conv(name, inputs[0], weights=np.ones((channels, 1, 1, 1), np.float32), groups=channels)
        return Block(unit, layer, None, layer.name, layer.name)
    return Block(layer.renamed(name, inputs), None, None, layer.name, layer.name)


def folded(block: Block) -> tuple[Float32, Float32]:
    """Weight [O, ...] and bias [O] of a Conv or Dense block with its batch norm folded in, in float64, then float32.

    w' = w * g and b' = (b - mean) * g + beta with g = gamma / sqrt(variance + eps), per output channel.
    """
    core = block.core
    assert isinstance(core, Weighted)
    weight = core.weights.astype(np.float64)
    bias = np.zeros(len(weight)) if core.bias is None else core.bias.astype(np.float64)
    factors = norm_factors(block)
    if block.norm is not None and factors is not None:
        weight = weight * factors.reshape(-1, *[1] * (weight.ndim - 1))
        bias = (bias - block.norm.mean) * factors + block.norm.beta
    return weight.astype(np.float32), bias.astype(np.float32)


def with_numbers(block: Block, weight: Float32, bias: Float32) -> Core:
    """The core of a Conv or Dense block with another weight [O, ...] and bias [O]."""
    assert isinstance(block.core, Weighted)
    return replace(block.core, weights=weight, bias=bias)


def norm_factors(block: Block) -> NDArray[np.float64] | None:
    """What its batch norm multiplies each output channel by, gamma / sqrt(variance + eps) [O]; None without one."""
    if block.norm is None:
        return None
    factors: NDArray[np.float64] = block.norm.gamma / np.sqrt(block.norm.variance.astype(np.float64) + block.norm.eps)
    return factors


_MOST_LEVELS, _OFF = 256, 0.02
"""Magnitudes of weights of 8 bits with a zero point; how far they may be from a multiple, in steps."""
_FEW = 4096
"""Weights that are looked at first."""


def rounded_to(weight: Float32) -> float | None:
    """The step of which all weights [O, ...] are multiples, at most 255 of it; None if they were not rounded before."""
    if len(np.unique(np.abs(weight.reshape(-1)[:_FEW]))) > _MOST_LEVELS:
        return None
    levels = np.unique(np.abs(weight)).astype(np.float64)
    if not 4 <= len(levels) <= _MOST_LEVELS:
        return None
    step = float(np.diff(levels).min())
    step = float(levels[-1] / max(1, round(levels[-1] / step)))
    is_whole = np.abs(levels / step - np.round(levels / step)).max() < _OFF
    return step if is_whole and levels[-1] < _MOST_LEVELS * step else None
