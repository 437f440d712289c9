"""Bias correction: the mean error of each channel caused by rounding is subtracted from its bias.

The error of a quantized layer is not zero on average and accumulates in later layers. Block by block, the mean of a
channel before its activation over the calibration images is compared between the float network and the integer network
(with all corrections so far), and the difference is added to the bias (Nagel, van Baalen, Blankevoort and Welling,
"Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, the empirical form).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.toolchain.float_model.forward import all_tensors, network_input, run_layer
from edgemeta.toolchain.float_model.graph import Conv, Dense, Float32, FloatModel
from edgemeta.toolchain.quantize.assemble import image_integers
from edgemeta.toolchain.quantize.blocks import Block, folded
from edgemeta.toolchain.quantize.choices import Choice
from edgemeta.toolchain.quantize.integer_layers import build


def corrected(
    model: FloatModel,
    blocks: Sequence[Block],
    types: Mapping[str, TensorType],
    choice: Choice,
    pixels: NDArray[np.uint8],
) -> Choice:
    """The choice with corrections measured on pixels uint8 [N, H, W, 3]; a few hundred images are enough."""
    tensors = all_tensors(model, network_input(model, pixels))
    images = image_integers(model, pixels)
    for block in blocks:
        if isinstance(block.core, Conv | Dense):
            integer = build(model, blocks, types, choice)
            wanted = tensors[block.before].mean((0, 1, 2), dtype=np.float64)
            shift = wanted - _mean_before_activation(integer, block, images)
            choice = replace(choice, shifts={**choice.shifts, block.name: shift})
    return choice


def _mean_before_activation(integer: Model, block: Block, images: NDArray[np.generic]) -> NDArray[np.float64]:
    """Mean per channel [C] of a block's accumulators with its folded bias in the integer network, as real numbers."""
    core = block.core
    assert isinstance(core, Conv | Dense)
    index = next(i for i, layer in enumerate(integer.layers) if layer.name == block.name)
    layer = integer.layers[index]
    kind = {"input": integer.input} | {x.name: x.output for x in integer.layers}
    source = kind[core.input]
    trimmed = replace(integer, layers=integer.layers[:index], outputs=(core.input,))
    values = reference.trace(trimmed, images)[core.input] if index else images
    x: Float32 = ((values.astype(np.float32) - source.zero_point) * np.float32(source.scale)).astype(np.float32)
    weights = layer.weights  # type: ignore[union-attr]
    scale = weights.scale.reshape(-1, *[1] * (len(weights.shape) - 1))
    weight = (weights.decode() * scale).astype(np.float32)
    out = run_layer(replace(core, weight=weight, bias=folded(block)[1]), [x])
    mean: NDArray[np.float64] = out.mean((0, 1, 2), dtype=np.float64)
    return mean
