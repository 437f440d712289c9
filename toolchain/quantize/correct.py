"""Bias correction: the mean error of each channel caused by rounding is subtracted from its bias.

The error of a quantized layer is not zero on average and accumulates in later layers. Block by block, the mean of a
channel before its activation over the calibration images is compared between the float network and the integer network
(with all corrections so far), and the difference is added to the bias (Nagel, van Baalen, Blankevoort and Welling,
"Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, the empirical form).
"""

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, Weighted, Windowed
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.folded import Choice, Folded
from edgemeta.toolchain.quantize.lower import Lowering, assemble
from edgemeta.toolchain.quantize.run import integer_session, needed

Channels = NDArray[np.float64]
"""One number for each channel, [C]."""

_MOST_WORK = 1 << 40
"""Multiplications of all runs together: about a quarter of a minute of one core."""
_FEWEST, _MOST = 16, 256


def corrected(
    builder: Lowering[Folded],
    means: Mapping[str, Channels],
    images: PreparedImages,
    stage: Progress | None = None,
) -> Choice:
    """The builder's choice with a correction for every layer with weights.

    means: of each channel before the activation, by name of the float tensor, measured on the same images.
    """
    few = images.chosen(images_for_correction(builder.build()))
    layers: list[Layer] = []
    for done, block in enumerate(builder.blocks, 1):
        if block.has_weights:
            off = means[block.before] - _mean_before_activation(builder, layers, block, few)
            policy = builder.policy
            more = {**policy.choice.shifts, block.name: policy.choice.shifts.get(block.name, 0.0) + off}
            builder = replace(builder, policy=replace(policy, choice=replace(policy.choice, shifts=more)))
        layers += builder.layers(block)
        if stage is not None:
            stage(done, len(builder.blocks))
    return builder.policy.choice


def images_for_correction(model: Model) -> int:
    """How many images are affordable: every layer with weights takes a run of the network up to it."""
    work, before = 0, 0
    for layer in model.layers:
        if isinstance(layer, Weighted) and isinstance(layer, Windowed):
            before += math.prod(layer.output.shape) * layer.products
            work += before
    return min(_MOST, max(_FEWEST, _MOST_WORK // max(work, 1)))


def _mean_before_activation(
    builder: Lowering[Folded], layers: list[Layer], block: Block, images: PreparedImages
) -> Channels:
    """Mean per channel [C] of a block's accumulators behind the layers so far, as real numbers."""
    (raw,) = builder.layers(block, is_raw=True)
    model = needed(replace(assemble(builder.model, [*layers, raw], (raw.name,), {})), (raw.name,))
    total = np.zeros(raw.output.shape[2])
    with closing(integer_session(model, compared=0)) as session:  # the whole network is compared when it is tried
        for image in images:
            total += session.run(image)[0].mean((0, 1, 2), dtype=np.float64)
    mean: Channels = total / len(images) * model.steps(raw.name)
    return mean
