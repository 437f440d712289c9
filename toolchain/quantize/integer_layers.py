"""Scheme `auto`, layer by layer: converts a block with the types of its tensors to one or more integer layers."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
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
from edgemeta.toolchain.quantize.blocks import Block, folded
from edgemeta.toolchain.quantize.choices import Choice, quantize_weights
from edgemeta.toolchain.quantize.scales import add_factors, int32_bias, multiplier_for

_BIAS_ROOM = 2.0**29


def build(model: FloatModel, blocks: Sequence[Block], types: Mapping[str, TensorType], choice: Choice) -> Model:
    """The integer model for one choice. Raises QuantizeError if a number does not fit."""
    layers: list[q.Layer] = []
    output = ""
    for block in blocks:
        last = block.after == model.output
        layers += _layers(block, types, choice, last)
        if last:
            output = block.name
    return assemble(model, layers, output, {"scheme": "auto"})


def _layers(block: Block, types: Mapping[str, TensorType], choice: Choice, last: bool) -> list[q.Layer]:
    core, out = block.core, types[block.name]
    source = types[block.inputs[0]]
    if isinstance(core, Conv | Dense):
        return [_weighted(block, source, out, choice, last)]
    if isinstance(core, Add):
        pair, shift = add_factors(types[core.inputs[0]], types[core.inputs[1]], out, core.name)
        return [q.Add(core.name, core.inputs, out, pair, shift, *_bounds(block.relu, out))]
    if isinstance(core, GlobalAverage) or (isinstance(core, Pool) and core.kind == "average"):
        kernel, stride, pads = source.shape[:2], source.shape[:2], (0, 0, 0, 0)
        if isinstance(core, Pool):
            kernel, stride, pads = core.kernel, core.stride, core.padding
        factor = np.array([source.scale / (out.scale * kernel[0] * kernel[1])])
        mean = multiplier_for(factor, *_bounds(block.relu, out), core.name)
        return [q.AveragePool(core.name, core.input, out, kernel, stride, mean, pads)]
    if isinstance(core, Pool):
        return [q.MaxPool(core.name, core.input, out, core.kernel, core.stride, core.padding)]
    if isinstance(core, Relu):
        return [q.Clamp(core.name, core.input, out, *_bounds(core, out))]
    if isinstance(core, Concat):
        return _joined(core, types, out)
    if isinstance(core, Function):
        return [q.Lookup(core.name, core.input, out, _lookup(core, source, out))]
    if isinstance(core, Product):
        units = np.array([source.scale * types[core.inputs[1]].scale / out.scale])
        return [q.Product(core.name, core.inputs, out, multiplier_for(units, out.lo, out.hi, core.name))]
    return [_moved(core, out)]


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
        if (kind.signed, kind.zero_point, kind.scale) == (out.signed, out.zero_point, out.scale):
            names.append(name)
            continue
        target = TensorType(kind.shape, signed=out.signed, zero_point=out.zero_point, scale=out.scale)
        factor = multiplier_for(np.array([kind.scale / out.scale]), out.lo, out.hi, core.name)
        layers.append(q.Rescale(f"{core.name}.input{i}", name, target, factor))
        names.append(layers[-1].name)
    return [*layers, q.Concat(core.name, tuple(names), out)]


def _bounds(relu: Relu | None, out: TensorType) -> tuple[int, int]:
    """Clamp bounds that implement the activation: 0 and its ceiling as integers of `out`."""
    if relu is None:
        return out.lo, out.hi
    if relu.ceiling is None:
        return out.zero_point, out.hi
    top = int(np.floor(relu.ceiling / out.scale + 0.5)) + out.zero_point
    return out.zero_point, min(out.hi, top)


def _weighted(block: Block, source: TensorType, out: TensorType, choice: Choice, last: bool) -> q.Layer:
    core = block.core
    assert isinstance(core, Conv | Dense)
    weight, bias = folded(block)
    real_bias = bias.astype(np.float64) + choice.shifts.get(block.name, 0.0)
    raw = last and block.relu is None
    weights = quantize_weights(
        weight, not raw, np.abs(real_bias) / (source.scale * _BIAS_ROOM), choice.moments.get(block.name)
    )
    units = source.scale * weights.scale  # real value of one accumulator step, [C] or [1]
    requantize: q.Requantize | None = None
    if raw:
        out = TensorType(out.shape, 32, scale=float(units[0]))
    elif choice.form == "multiplier":
        requantize = multiplier_for(units / out.scale, *_bounds(block.relu, out), core.name)
    else:
        requantize, middle = _table(units, block.relu, out)
        real_bias = real_bias - middle
    integer_bias = int32_bias(real_bias / units, core.name)
    if isinstance(core, Dense):
        return q.Dense(core.name, core.input, out, weights, integer_bias, requantize)
    return q.Conv(
        core.name,
        core.input,
        out,
        weights,
        integer_bias,
        core.stride,
        core.padding,
        core.groups,
        requantize,
        core.dilation,
    )


def _table(units: NDArray[np.float64], relu: Relu | None, out: TensorType) -> tuple[q.ShiftTable, float]:
    """Shift and table per channel, and the real value at the middle of the range, to be subtracted from the bias.

    The 256 entries cover the values that the output can represent: [0, top] after ReLU, else the whole range. The shift
    is the least for which they do.
    """
    lo, hi = _bounds(relu, out)
    low, high = (lo - out.zero_point) * out.scale, (hi - out.zero_point) * out.scale
    middle = (low + high) / 2
    need = (high - middle) / (127 * units)
    shift = np.clip(np.ceil(np.log2(np.maximum(need, 1.0))), 0, 31)
    steps = np.arange(-128, 128, dtype=np.float64)
    real = steps * (units * 2.0**shift)[:, None] + middle
    entries = np.clip(np.floor(real / out.scale + 0.5) + out.zero_point, lo, hi)
    return q.ShiftTable(shift.astype(np.uint8), entries.astype(out.dtype)), middle
