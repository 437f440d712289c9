"""Groups the float graph into the layers of the integer network: batch norm and activation fused into their layer.

A convolution or dense layer includes a batch norm that is its only reader, then a ReLU that is the only reader of that;
an addition or mean includes its ReLU. A separate batch norm becomes a 1x1 depthwise convolution with that batch norm.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.float_model.graph import (
    Add,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    Float32,
    FloatLayer,
    FloatModel,
    Function,
    GlobalAverage,
    Pad,
    Pool,
    Product,
    Relu,
    ResizeBilinear,
    Slice,
    Upsample,
    inputs_of,
)

Core: TypeAlias = (
    Conv
    | Dense
    | Add
    | Pool
    | GlobalAverage
    | Relu
    | Concat
    | Upsample
    | Function
    | Product
    | Pad
    | Slice
    | ChannelShuffle
    | ResizeBilinear
)


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
        return isinstance(self.core, Conv | Dense)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the blocks (or "input") that it reads."""
        return inputs_of(self.core)


def blocks_of(model: FloatModel) -> tuple[Block, ...]:
    """Group the layers of a checked graph; the order is preserved."""
    readers: dict[str, list[FloatLayer]] = {}
    for layer in model.layers:
        for name in inputs_of(layer):
            readers.setdefault(name, []).append(layer)
    made_by: dict[str, str] = {"input": "input"}  # float tensor -> block that computes it
    joined: set[str] = set()
    blocks: list[Block] = []
    for layer in model.layers:
        if layer.name in joined:
            continue
        block = renamed(layer, layer.name, tuple(made_by[name] for name in inputs_of(layer)))
        core, norm = block.core, block.norm
        before = after = layer.name
        if isinstance(core, Conv | Dense) and norm is None:
            follower = _only_reader(readers, after, model.outputs)
            if isinstance(follower, BatchNorm):
                norm, before, after = follower, follower.name, follower.name
                joined.add(follower.name)
        relu = None
        if isinstance(core, Conv | Dense | Add | GlobalAverage) or (isinstance(core, Pool) and core.kind == "average"):
            follower = _only_reader(readers, after, model.outputs)
            if isinstance(follower, Relu):
                relu, after = follower, follower.name
                joined.add(follower.name)
        made_by[after] = core.name
        blocks.append(Block(core, norm, relu, before, after))
    return tuple(blocks)


def _only_reader(readers: dict[str, list[FloatLayer]], tensor: str, outputs: tuple[str, ...]) -> FloatLayer | None:
    follow = readers.get(tensor, [])
    return follow[0] if len(follow) == 1 and tensor not in outputs else None


def renamed(layer: FloatLayer, name: str, inputs: tuple[str, ...]) -> Block:
    """A block of one layer, under another name and with other names of its inputs."""
    if isinstance(layer, BatchNorm):
        channels = len(layer.gamma)
        unit = Conv(name, inputs[0], np.ones((channels, 1, 1, 1), np.float32), groups=channels)
        return Block(unit, layer, None, layer.name, layer.name)
    given: dict[str, Any] = {"inputs": inputs} if isinstance(layer, Add | Product | Concat) else {"input": inputs[0]}
    return Block(replace(layer, name=name, **given), None, None, layer.name, layer.name)


def folded(block: Block) -> tuple[Float32, Float32]:
    """Weight [O, ...] and bias [O] of a Conv or Dense block with its batch norm folded in, in float64, then float32.

    w' = w * g and b' = (b - mean) * g + beta with g = gamma / sqrt(variance + eps), per output channel.
    """
    core = block.core
    assert isinstance(core, Conv | Dense)
    weight = core.weight.astype(np.float64)
    bias = np.zeros(len(weight)) if core.bias is None else core.bias.astype(np.float64)
    factors = norm_factors(block)
    if block.norm is not None and factors is not None:
        weight = weight * factors.reshape(-1, *[1] * (weight.ndim - 1))
        bias = (bias - block.norm.mean) * factors + block.norm.beta
    return weight.astype(np.float32), bias.astype(np.float32)


def norm_factors(block: Block) -> NDArray[np.float64] | None:
    """What its batch norm multiplies each output channel by, gamma / sqrt(variance + eps) [O]; None without one."""
    if block.norm is None:
        return None
    factors: NDArray[np.float64] = block.norm.gamma / np.sqrt(block.norm.variance.astype(np.float64) + block.norm.eps)
    return factors
