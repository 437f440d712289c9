"""Scheme `paper`: exactly the integer arithmetic of Terakura, Chang and Miyazaki.

Image Q7, activations Q3, weights Q5, all int8. A convolution's int32 sum, Q(m + 5), is shifted to int8 Q3 (round half
up, clamped); then one table per channel, indexed by that int8, applies batch norm and activation, computed in float32,
and quantizes to Q3. Additions are in Q3 and saturate. The dense layer's bias is in accumulator units; its sums are the
logits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import fixedpoint
from edgemeta.model import layers as q
from edgemeta.model.graph import Model
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.graph import (
    Add,
    Concat,
    Conv,
    Dense,
    Float32,
    FloatModel,
    GlobalAverage,
    Pool,
    Relu,
    Upsample,
)
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.quantize.assemble import assemble
from edgemeta.toolchain.quantize.blocks import Block, blocks_of
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.image_type import image_type
from edgemeta.toolchain.quantize.rescale import rescaled
from edgemeta.toolchain.quantize.scales import int32_bias, multiplier_for
from edgemeta.toolchain.quantize.scheme import SchemeResult

IMAGE_BITS, ACTIVATION_BITS, WEIGHT_BITS = 7, 3, 5


@dataclass(frozen=True)
class PaperScheme:
    """Scheme `paper`, which has no settings and needs no images."""

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> SchemeResult:
        """As `Scheme.run`."""
        events.planned(following)
        return SchemeResult(quantize_paper(model), 0)


def quantize_paper(model: FloatModel, rescale: bool = True) -> Model:
    """The integer model; no calibration images are needed.

    rescale: first adapt the convolutions to the fixed formats without changing the float network (`rescale.py`).

    Raises QuantizeError if the float model's input is not (pixel - 128) / 128, or for layers that the scheme does not
    support.
    """
    shapes = check(model, model.name)
    if {*model.mean, *model.scale} != {128.0}:
        raise QuantizeError(
            f"{model.name}: the input is (pixel - {model.mean}) / {model.scale}, "
            "scheme paper expects (pixel - 128) / 128"
        )
    if rescale:
        model = rescaled(model, WEIGHT_BITS, ACTIVATION_BITS)
    types = {"input": image_type(model)}
    layers: list[q.Layer] = []
    output = ""
    for block in blocks_of(model):
        kind = q.TensorType(shapes[block.after], scale=2.0**-ACTIVATION_BITS)
        if block.after == model.output:
            output = block.name
        layer = _layer(block, kind, types, last=block.after == model.output)
        layers.append(layer)
        types[block.name] = layer.output
    scheme = {"image": IMAGE_BITS, "activations": ACTIVATION_BITS, "weights": WEIGHT_BITS}
    return assemble(model, layers, (output,), {"scheme": "paper", "fraction_bits": scheme, "rescaled": rescale})


def _fraction_bits(kind: q.TensorType) -> int:
    return round(-math.log2(kind.scale))


def _layer(block: Block, kind: q.TensorType, types: dict[str, q.TensorType], last: bool) -> q.Layer:
    core, name = block.core, block.name
    source = types[block.inputs[0]]
    bits_in = _fraction_bits(source)
    bounds = _bounds(block.relu)
    if isinstance(core, Conv):
        if core.dilation != (1, 1):
            raise QuantizeError(f"layer {name!r} has a dilation, which scheme paper does not have: use auto")
        shift = bits_in + WEIGHT_BITS - ACTIVATION_BITS
        requantize = q.ShiftTable(np.array([shift], np.uint8), _table(block, len(core.weight)))
        bias = _bias(core.bias, bits_in + WEIGHT_BITS, name)
        return q.Conv(
            name, core.input, kind, _weights(core.weight), bias, core.stride, core.padding, core.groups, requantize
        )
    if isinstance(core, Dense):
        bias = _bias(core.bias, bits_in + WEIGHT_BITS, name)
        if last and block.norm is None and block.relu is None:
            scale = 2.0 ** -(bits_in + WEIGHT_BITS)
            return q.Dense(name, core.input, q.TensorType(kind.shape, 32, scale=scale), _weights(core.weight), bias)
        shift = bits_in + WEIGHT_BITS - ACTIVATION_BITS
        requantize = q.ShiftTable(np.array([shift], np.uint8), _table(block, len(core.weight)))
        return q.Dense(name, core.input, kind, _weights(core.weight), bias, requantize)
    if isinstance(core, Add):
        if {_fraction_bits(types[n]) for n in core.inputs} != {ACTIVATION_BITS}:
            raise QuantizeError(f"layer {name!r}: adds the image, expected Q{ACTIVATION_BITS} tensors in scheme paper")
        return q.Add(name, core.inputs, kind, (1, 1), 0, *bounds)
    if isinstance(core, GlobalAverage) or (isinstance(core, Pool) and core.kind == "average"):
        whole = source.shape[:2]
        kernel, stride, pads = (whole, whole, (0, 0, 0, 0))
        if isinstance(core, Pool):
            kernel, stride, pads = core.kernel, core.stride, core.padding
        factor = 2.0 ** (ACTIVATION_BITS - bits_in) / (kernel[0] * kernel[1])
        mean = multiplier_for(np.array([factor]), *bounds, name)
        return q.AveragePool(name, core.input, kind, kernel, stride, mean, pads)
    same = q.TensorType(kind.shape, scale=source.scale)
    if isinstance(core, Pool):
        return q.MaxPool(name, core.input, same, core.kernel, core.stride, core.padding)
    if isinstance(core, Relu):
        return q.Clamp(name, core.input, same, *_bounds(core, bits_in))
    if isinstance(core, Concat):
        if len({types[n].scale for n in core.inputs}) != 1:
            raise QuantizeError(
                f"layer {name!r}: concatenates the image, expected Q{ACTIVATION_BITS} tensors in scheme paper"
            )
        return q.Concat(name, core.inputs, same)
    if not isinstance(core, Upsample):
        raise QuantizeError(f"layer {name!r} is a {type(core).__name__}, which scheme paper does not have: use auto")
    return q.Upsample(name, core.input, same, core.factor)


def _weights(weight: Float32) -> FixedWeights:
    values = fixedpoint.quantize(weight, WEIGHT_BITS).astype(np.int8)
    return FixedWeights(values, 8, np.array([2.0**-WEIGHT_BITS]))


def _bias(bias: Float32 | None, bits: int, name: str) -> NDArray[np.int32] | None:
    return None if bias is None else int32_bias(bias.astype(np.float64) * 2.0**bits, name)


def _bounds(relu: Relu | None, bits: int = ACTIVATION_BITS) -> tuple[int, int]:
    if relu is None:
        return -128, 127
    return 0, 127 if relu.ceiling is None else int(fixedpoint.quantize(relu.ceiling, bits))


def _table(block: Block, channels: int) -> NDArray[np.int8]:
    """LUT[c][v] for v = -128 .. 127, computed in float32 as in the paper: int8 [channels, 256]."""
    x = (np.arange(-128, 128, dtype=np.float32) / np.float32(2.0**ACTIVATION_BITS))[None, :].repeat(channels, 0)
    norm = block.norm
    if norm is not None:
        root = np.sqrt(norm.variance + np.float32(norm.eps))
        x = norm.gamma[:, None] * (x - norm.mean[:, None]) / root[:, None] + norm.beta[:, None]
    if block.relu is not None:
        ceiling = None if block.relu.ceiling is None else np.float32(block.relu.ceiling)
        x = np.clip(x, np.float32(0), ceiling)
    return fixedpoint.quantize(x, ACTIVATION_BITS).astype(np.int8)
