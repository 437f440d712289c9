"""A trained float network as steps of the float32 kernels: batch norm folded, additions and shortcuts fused."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Add, Conv, Dense, Float32, GlobalAverage, Shape
from edgemeta.toolchain.quantize.blocks import Block, blocks_of, folded
from edgemeta_proof.baselines.float32.launch import FloatConv, FloatHead, float_plan

PlanMaker: TypeAlias = Callable[[Shape, Sequence[FloatConv], FloatHead, Architecture], LaunchPlan]


def float_plan_of(model: FloatModel, architecture: Architecture, make: PlanMaker = float_plan) -> LaunchPlan:
    """Make the plan of a network of convolutions, additions, then mean and dense; input [N, H, W, C] float32.

    make: float_plan, or paper_float_plan for the paper's kernels.

    Raises ValueError for any other layer.
    """
    convolutions: dict[str, FloatConv] = {}  # by output tensor
    head: FloatHead | None = None
    for block in blocks_of(model):
        if isinstance(block.core, Conv):
            convolutions[block.name] = _convolution(block, block.core)
        elif isinstance(block.core, Add):
            residual, main = sorted(block.core.inputs, key=list(convolutions).index)
            taken = convolutions.pop(main)
            convolutions[block.name] = replace(taken, name=block.name, residual=residual, relu=block.relu is not None)
        elif isinstance(block.core, Dense):
            weight, bias = folded(block)
            head = FloatHead(block.name, list(convolutions)[-1], weight, bias)
        elif not isinstance(block.core, GlobalAverage):
            raise ValueError(f"{block.name}: the float32 kernels have no {type(block.core).__name__}")
    if head is None:
        raise ValueError(f"{model.name}: no dense layer at the end")
    return make(model.input_shape, _beside(list(convolutions.values())), head, architecture)


def _convolution(block: Block, conv: Conv[Float32]) -> FloatConv:
    weight, bias = folded(block)
    return FloatConv(block.name, conv.input, weight, bias, conv.stride, conv.padding, block.relu is not None)


def _beside(convolutions: list[FloatConv]) -> list[FloatConv]:
    """Fuse every strided 1x1 convolution with the other convolution of its input."""
    shortcuts = {conv.input: conv for conv in convolutions if conv.weight.shape[1:3] == (1, 1) and not conv.relu}
    kept = [conv for conv in convolutions if conv not in shortcuts.values()]
    return [replace(conv, shortcut=shortcuts.get(conv.input)) for conv in kept]
