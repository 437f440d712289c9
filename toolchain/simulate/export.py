"""From a network that was trained under integer rules to the model file of a device: the integers are the trained ones.

Batch norm goes into the scale of each channel, and its sign into the weights. The tensors that a layer reads have the
type of its activation; a tensor whose range no rule observed (a convolution's output before an addition) gets 8 bits
for its range over calibration images.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import TensorType
from edgemeta.model.prove_float import prove_float
from edgemeta.model.weights import FixedWeights, Weights
from edgemeta.toolchain.errors import QuantizeError, SimulateError
from edgemeta.toolchain.number_formats.formats import FixedPoint, Integer, PowerOfTwo, name_of
from edgemeta.toolchain.quantize.blocks import Block, blocks_of, norm_factors
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.ranges import RangeRule, Statistics
from edgemeta.toolchain.quantize.types import encoded, tensor_types
from edgemeta.toolchain.quantize.weights import LayerWeights
from edgemeta.toolchain.simulate.prepare import accumulations_of, quantizers_of
from edgemeta.toolchain.simulate.quantizer import Quantizer, Role
from edgemeta.toolchain.torch_network import TorchNetwork

Quantizers: TypeAlias = Mapping[tuple[str, Role], Quantizer]
"""Of a prepared network, by layer and role."""

_RANGES: RangeRule = "mse"
"""Rule for the ranges that nothing observed."""


def export(network: TorchNetwork, model: FloatModel, images: PreparedImages, stage: Progress | None = None) -> Model:
    """The integer model of a prepared network in evaluation mode.

    model: the same network as a float graph with layers of the same names, batch norms apart, and weights as rounded.
    images: for the ranges that nothing observed. stage: called with (images done, all images). Raises SimulateError for
    a format that a device does not have, naming layer and role, and for an accumulator: those of devices hold any sum.
    """
    _refuse_accumulators(network)
    layers = {module: layer for layer, module in network.module_names.items()}
    blocks = blocks_of(model)
    quantizers = {(layers[module], role): each for (module, role), each in quantizers_of(network).items()}
    statistics = Statistics(model, blocks, images, stage)
    try:
        given = _activation_types(blocks, quantizers)
        types = tensor_types(image_type(model), prove_float(model, model.name), blocks, statistics, _RANGES, given)
        weights = _TrainedWeights(network, blocks, quantizers)
        raw = raw_outputs(model, blocks)
        policy = Folded(weights, "multiplier", model.is_classification)
        built = Lowering(model, blocks, types, policy, raw).build()
    except QuantizeError as error:
        raise SimulateError(f"the trained network cannot be exported: {error}") from error
    provenance = {"scheme": "trained under rules", "formats": _formats(quantizers)}
    return replace(built, provenance=provenance)


def _refuse_accumulators(network: nn.Module) -> None:
    for layer, accumulation in accumulations_of(network).items():
        raise SimulateError(
            f"layer {layer!r} was trained with an {name_of(accumulation.kind)}, expected none: a device's accumulators "
            "hold every sum"
        )


def _formats(quantizers: Quantizers) -> dict[str, dict[str, str]]:
    """Layer -> role -> format."""
    found: dict[str, dict[str, str]] = {}
    for (layer, role), quantizer in quantizers.items():
        found.setdefault(layer, {})[role] = name_of(quantizer.kind)
    return found


def _activation_types(blocks: tuple[Block, ...], quantizers: Quantizers) -> dict[str, TensorType]:
    """Block -> the type of its output, as the layers that read it round it."""
    types: dict[str, TensorType] = {}
    for block in blocks:
        quantizer = quantizers.get((block.name, "activation"))
        if quantizer is None:
            continue
        kind, source = _activation_type(block.name, quantizer), block.inputs[0]
        if source == INPUT:
            if kind.bits != 8:
                raise SimulateError(
                    f"layer {block.name!r} reads the image with {kind.bits} bits, expected 8: an image is not rounded "
                    "again; give this layer a rule of its own"
                )
        elif types.setdefault(source, kind) != kind:
            raise SimulateError(
                f"layer {block.name!r} reads {source!r} as {name_of(quantizer.kind)}, another layer reads it otherwise,"
                " expected one format"
            )
    return types


def _activation_type(layer: str, quantizer: Quantizer) -> TensorType:
    kind = quantizer.kind
    if isinstance(kind, FixedPoint) and kind.bits <= 8:
        return TensorType((0, 0, 0), kind.bits, scale=2.0**-kind.fraction)
    if isinstance(kind, Integer) and kind.bits <= 8 and not kind.per_channel:
        found = quantizer.trained_scales()
        zero_point, scale = int(found.zero_point.item()), float(found.scale.item())
        return TensorType((0, 0, 0), kind.bits, kind.signed, zero_point, scale)
    raise _no_such_format(layer, quantizer, "`int` or `fixed` of at most 8 bits, one scale for the tensor")


def _no_such_format(layer: str, quantizer: Quantizer, expected: str) -> SimulateError:
    return SimulateError(
        f"layer {layer!r}: its {quantizer.role} is {name_of(quantizer.kind)}, which no device computes with, expected "
        f"{expected}"
    )


class _TrainedWeights:
    """The integers of the weights as the network was trained with them; 8 bits per channel where no rule was."""

    def __init__(self, network: TorchNetwork, blocks: tuple[Block, ...], quantizers: Quantizers) -> None:
        self._others = LayerWeights(blocks)
        self._trained = {
            block.name: _integers(network, block, quantizers[block.name, "weight"])
            for block in blocks
            if (block.name, "weight") in quantizers
        }

    def bias(self, name: str) -> NDArray[np.float64]:
        """The real bias of a layer [O]."""
        return self._others.bias(name)

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """The sum of the magnitudes of each channel's weights [O]."""
        return self._others.magnitude(name)

    def integers(self, name: str, per_channel: bool, least_scale: NDArray[np.float64]) -> Weights:
        """The weights of a layer; the scales are those of the training."""
        trained = self._trained.get(name)
        if trained is None:
            return self._others.integers(name, per_channel, least_scale)
        if len(trained.scale) > 1 and not per_channel:
            raise SimulateError(
                f"layer {name!r} gives the scores, and its weights have a scale per channel, expected one scale, so "
                "that scores can be compared: `int8_symmetric`"
            )
        return trained


def _integers(network: TorchNetwork, block: Block, quantizer: Quantizer) -> Weights:
    """Weights [O, ...] of a layer, channels last, with the factors of its batch norm in scale and sign."""
    kind = quantizer.kind
    weight: Any = network.get_submodule(network.module_names[block.name]).weight
    with torch.no_grad():
        values, scale = quantizer.integers(weight)
    steps = values.numpy()
    if steps.ndim == 4:
        steps = steps.transpose(0, 2, 3, 1)
    scale_of, factors = scale.numpy().astype(np.float64), norm_factors(block)
    if factors is not None:
        signs = np.where(factors < 0, -1, 1).reshape(-1, *[1] * (steps.ndim - 1))
        steps = np.where(factors.reshape(signs.shape) == 0, 0, steps * signs)
        scale_of = scale_of * np.where(factors == 0, 1.0, np.abs(factors))
    if isinstance(kind, PowerOfTwo):
        return encoded(steps, kind.bits, scale_of)
    if isinstance(kind, FixedPoint | Integer) and kind.bits <= 8 and (isinstance(kind, FixedPoint) or kind.symmetric):
        greatest = (1 << kind.bits - 1) - 1
        if steps.max(initial=0) > greatest:
            raise SimulateError(
                f"layer {block.name!r}: a weight of {-greatest - 1} is in a channel whose batch norm is negative, "
                "expected a symmetric format"
            )
        return FixedWeights(np.ascontiguousarray(steps, np.int8), kind.bits, scale_of)
    raise _no_such_format(
        block.name, quantizer, "`int` with `symmetric: true` or `fixed`, of at most 8 bits, or `power_of_two`"
    )
