"""Scheme `auto`, layer by layer: converts a block with the types of its tensors to one or more integer layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import Weights
from edgemeta.toolchain.float_model.functions import evaluate
from edgemeta.toolchain.float_model.graph import (
    Add,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
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
)
from edgemeta.toolchain.quantize.assemble import assemble
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.choices import Choice
from edgemeta.toolchain.quantize.scales import add_factors, int32_bias, multiplier_for

_BIAS_ROOM, _SUM_ROOM = 2.0**29, 2.0**30
"""Greatest bias, and greatest sum of products beside it, of an int32 accumulator; rounding adds less than the rest."""


class Integers(Protocol):
    """The weights of a network's layers, with batch norm folded in, as integers."""

    def bias(self, name: str) -> NDArray[np.float64]:
        """The real bias of a layer [O]."""

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """The sum of the magnitudes of each channel's weights [O]."""

    def integers(self, name: str, per_channel: bool, least_scale: NDArray[np.float64]) -> Weights:
        """The weights of a layer, one scale per output channel or one for all, none below least_scale [O]."""


@dataclass(frozen=True, eq=False)
class Builder:
    """Makes the integer layers of a network's blocks. types: of every block's output; weights: of its layers.

    raw: names of the outputs that stay int32 accumulators, with weights per channel unless `one_step`, which gives the
    whole output one scale (logits that are compared with each other). Its methods raise QuantizeError if a number does
    not fit.
    """

    model: FloatModel
    blocks: Sequence[Block]
    types: Mapping[str, TensorType]
    weights: Integers
    choice: Choice
    raw: frozenset[str]
    one_step: bool

    def build(self) -> Model:
        """The integer model."""
        layers = [layer for block in self.blocks for layer in self.layers(block)]
        names = {block.after: block.name for block in self.blocks}
        outputs = [names[output] for output in self.model.outputs]
        return assemble(self.model, layers, outputs, {"scheme": "auto"})

    def layers(self, block: Block) -> list[q.Layer]:
        """The layers of one block."""
        core, out, types = block.core, self.types[block.name], self.types
        source = types[block.inputs[0]]
        if isinstance(core, Conv | Dense):
            return [self.weighted(block, is_raw=block.name in self.raw)]
        if isinstance(core, Add):
            pair, shift = add_factors(types[core.inputs[0]], types[core.inputs[1]], out)
            return [q.Add(core.name, core.inputs, out, pair, shift, *activation_bounds(block.relu, out))]
        if isinstance(core, GlobalAverage) or (isinstance(core, Pool) and core.kind == "average"):
            kernel, stride, pads = source.shape[:2], source.shape[:2], (0, 0, 0, 0)
            if isinstance(core, Pool):
                kernel, stride, pads = core.kernel, core.stride, core.padding
            factor = np.array([source.scale / (out.scale * kernel[0] * kernel[1])])
            mean = multiplier_for(factor, *activation_bounds(block.relu, out), core.name)
            return [q.AveragePool(core.name, core.input, out, kernel, stride, mean, pads)]
        if isinstance(core, Pool):
            return [q.MaxPool(core.name, core.input, out, core.kernel, core.stride, core.padding)]
        if isinstance(core, Relu):
            return [q.Clamp(core.name, core.input, out, *activation_bounds(core, out))]
        if isinstance(core, Concat):
            return _joined(core, types, out)
        if isinstance(core, Function):
            return [q.Lookup(core.name, core.input, out, _lookup(core, source, out))]
        if isinstance(core, Product):
            units = np.array([source.scale * types[core.inputs[1]].scale / out.scale])
            return [q.Product(core.name, core.inputs, out, multiplier_for(units, out.lo, out.hi, core.name))]
        return [_moved(core, out)]

    def weighted(self, block: Block, *, is_raw: bool) -> q.Conv | q.Dense:
        """The layer of a block with weights; raw: its int32 accumulators are the output."""
        core, choice = block.core, self.choice
        assert isinstance(core, Conv | Dense)
        source, out = self.types[core.input], self.types[block.name]
        bias = self.weights.bias(block.name) + choice.shifts.get(block.name, 0.0)
        per_channel = block.name not in self.raw or not self.one_step
        middle = 0.0 if is_raw or choice.form == "multiplier" else _middle(block.relu, out)
        room = np.maximum(np.abs(bias), np.abs(bias - middle)) / (source.scale * _BIAS_ROOM)
        reach = max(source.hi - source.zero_point, source.zero_point - source.lo)
        room = np.maximum(room, self.weights.magnitude(block.name) * reach / _SUM_ROOM)
        weights = self.weights.integers(block.name, per_channel, room)
        units = source.scale * weights.scale  # real value of one accumulator step, [C] or [1]
        requantize: q.Requantize | None = None
        if is_raw:
            out = TensorType(out.shape, 32, scale=source.scale if len(units) > 1 else float(units[0]))
        elif choice.form == "multiplier":
            requantize = multiplier_for(units / out.scale, *activation_bounds(block.relu, out), core.name)
        else:
            requantize = _table(units, block.relu, out)
            bias = bias - middle
        integer_bias = int32_bias(bias / units, core.name)
        if isinstance(core, Dense):
            return q.Dense(core.name, core.input, out, weights, integer_bias, requantize)
        window = core.stride, core.padding, core.groups
        return q.Conv(core.name, core.input, out, weights, integer_bias, *window, requantize, core.dilation)


def raw_outputs(model: FloatModel, blocks: Sequence[Block]) -> frozenset[str]:
    """Blocks whose int32 accumulators are outputs of the network: with weights, without ReLU, read by nothing."""
    read = {name for block in blocks for name in block.inputs}
    return frozenset(
        block.name
        for block in blocks
        if block.after in model.outputs and block.has_weights and block.relu is None and block.name not in read
    )


def _moved(core: Upsample | Pad | Slice | ChannelShuffle | ResizeBilinear, out: TensorType) -> q.Layer:
    """Layers that keep the quantization of their input."""
    match core:
        case Upsample():
            return q.Upsample(core.name, core.input, out, core.factor)
        case Pad():
            return q.Pad(core.name, core.input, out, core.padding, core.spacing)
        case Slice():
            return q.Slice(core.name, core.input, out, core.start, core.stop, core.step)
        case ChannelShuffle():
            return q.ChannelShuffle(core.name, core.input, out, core.groups)
        case ResizeBilinear():
            return q.ResizeBilinear(core.name, core.input, out, core.coordinates)


def _lookup(core: Function, source: TensorType, out: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1, 256]: f of the real number of each input integer, as the nearest output integer."""
    integers = np.arange(256) - (128 if source.signed else 0)
    real = (source.scale * (integers - source.zero_point)).astype(np.float32)
    values = evaluate(core.function, real, core.alpha, core.beta).astype(np.float64)
    entries = np.clip(np.floor(values / out.scale + 0.5) + out.zero_point, out.lo, out.hi)
    table: NDArray[np.int8] | NDArray[np.uint8] = entries.astype(out.dtype)[np.newaxis]
    return table


def _joined(core: Concat, types: Mapping[str, TensorType], out: TensorType) -> list[q.Layer]:
    """A concatenation, with a Rescale for every input whose quantization differs."""
    layers: list[q.Layer] = []
    names = []
    for i, name in enumerate(core.inputs):
        kind = types[name]
        target = replace(out, shape=kind.shape)
        if kind == target:
            names.append(name)
            continue
        factor = multiplier_for(np.array([kind.scale / out.scale]), out.lo, out.hi, core.name)
        layers.append(q.Rescale(f"{core.name}.input{i}", name, target, factor))
        names.append(layers[-1].name)
    return [*layers, q.Concat(core.name, tuple(names), out)]


def activation_bounds(relu: Relu | None, out: TensorType) -> tuple[int, int]:
    """Clamp bounds that implement the activation: 0 and its ceiling as integers of `out`."""
    if relu is None:
        return out.lo, out.hi
    if relu.ceiling is None:
        return out.zero_point, out.hi
    top = int(np.floor(relu.ceiling / out.scale + 0.5)) + out.zero_point
    return out.zero_point, min(out.hi, top)


def _middle(relu: Relu | None, out: TensorType) -> float:
    """The real value at the middle of what the output can represent: [0, top] after ReLU, else the whole range."""
    lo, hi = activation_bounds(relu, out)
    return (lo + hi - 2 * out.zero_point) * out.scale / 2


def _table(units: NDArray[np.float64], relu: Relu | None, out: TensorType) -> q.ShiftTable:
    """Shift and table per channel, for accumulators whose 0 is the middle of the output.

    The 256 entries cover the values that the output can represent. The shift is the least for which they do.
    """
    lo, hi = activation_bounds(relu, out)
    middle, high = _middle(relu, out), (hi - out.zero_point) * out.scale
    need = (high - middle) / (127 * units)
    shift = np.clip(np.ceil(np.log2(np.maximum(need, 1.0))), 0, 31)
    steps = np.arange(-128, 128, dtype=np.float64)
    real = steps * (units * 2.0**shift)[:, None] + middle
    entries = np.clip(np.floor(real / out.scale + 0.5) + out.zero_point, lo, hi)
    return q.ShiftTable(shift.astype(np.uint8), entries.astype(out.dtype))
