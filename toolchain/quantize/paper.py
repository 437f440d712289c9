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
from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import Concat, Dense, Float32, Homogeneous, MaxPool, Relu, Summing, Upsample, Weighted
from edgemeta.model.prove_float import prove_float
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, blocks_of
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, Node, Numbers, Policy, raw_outputs
from edgemeta.toolchain.quantize.rescale import rescaled
from edgemeta.toolchain.quantize.scales import int32_bias
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
    shapes = prove_float(model, model.name)
    if {*model.mean, *model.scale} != {128.0}:
        raise QuantizeError(
            f"{model.name}: the input is (pixel - {model.mean}) / {model.scale}, "
            "scheme paper expects (pixel - 128) / 128"
        )
    if rescale:
        model = rescaled(model, WEIGHT_BITS, ACTIVATION_BITS)
    blocks, types = blocks_of(model), {INPUT: image_type(model)}
    for block in blocks:
        is_kept = isinstance(block.core, Relu | Homogeneous)
        scale = types[block.inputs[0]].scale if is_kept else 2.0**-ACTIVATION_BITS
        types[block.name] = q.TensorType(shapes[block.after], scale=scale)
    dense = {block.name for block in blocks if isinstance(block.core, Dense) and block.norm is None}
    scheme = {"image": IMAGE_BITS, "activations": ACTIVATION_BITS, "weights": WEIGHT_BITS}
    provenance = {"scheme": "paper", "fraction_bits": scheme, "rescaled": rescale}
    return Lowering(model, blocks, types, _Paper(), raw_outputs(model, blocks) & dense).build(provenance)


class _Paper(Policy):
    scheme = "paper"
    layers = (Summing, MaxPool, Relu, Concat, Upsample)

    def weighted(self, node: Node) -> Numbers:
        """As Policy."""
        core, source = node.core, node.sources[0]
        assert isinstance(core, Weighted)
        if getattr(core, "dilation", (1, 1)) != (1, 1):
            raise QuantizeError(f"layer {node.name!r} has a dilation, which scheme paper does not have: use auto")
        unit = source.scale * 2.0**-WEIGHT_BITS
        bias = None if core.bias is None else int32_bias(core.bias.astype(np.float64) / unit, node.name)
        if node.is_raw:
            return Numbers(_weights(core.real_weights), bias, None, q.TensorType(node.out.shape, 32, scale=unit))
        shift = round(math.log2(node.out.scale / unit))
        requantize = q.ShiftTable(np.array([shift], np.uint8), _table(node.block, len(core.real_weights)))
        return Numbers(_weights(core.real_weights), bias, requantize, node.out)

    def total(self, node: Node) -> tuple[tuple[int, int], int]:
        """As Policy."""
        if {kind.scale for kind in node.sources} != {node.out.scale}:
            raise QuantizeError(
                f"layer {node.name!r}: adds the image, expected Q{ACTIVATION_BITS} tensors in scheme paper"
            )
        return (1, 1), 0

    def factor(self, node: Node, _scale: float) -> q.Multiplier:
        """As Policy."""
        raise QuantizeError(
            f"layer {node.name!r}: concatenates the image, expected Q{ACTIVATION_BITS} tensors in scheme paper"
        )


def _weights(weight: Float32) -> FixedWeights:
    values = fixedpoint.quantize(weight, WEIGHT_BITS).astype(np.int8)
    return FixedWeights(values, 8, np.array([2.0**-WEIGHT_BITS]))


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
