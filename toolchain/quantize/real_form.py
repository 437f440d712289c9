"""The real-valued form of a binary-decomposed network: weights M c with real c, feature maps quantized to Q bits.

It is what Kondo and Yamashita run; the integer network is measured beside it. Every tensor is quantized as in the
integer network: to Q bits what a layer with weights reads, to 8 bits all others (the branches of an addition). All else
is float32 arithmetic.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.toolchain.float_model.forward import run_layer
from edgemeta.toolchain.float_model.graph import Conv, Dense, Float32
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.quantize.blocks import Block, folded
from edgemeta.toolchain.quantize.feature_maps import image_of_bits
from edgemeta.toolchain.quantize.weight_schemes import Binary


class RealForm:
    """Runs the decomposed network of a choice in float32."""

    def __init__(self, network: BitNetwork, scheme: Binary, bits: Bits) -> None:
        self._model = network.model
        self._image = image_of_bits(network.model, bits.maps.get(INPUT, 8))
        self._types = network.maps.types(bits.maps)
        self._blocks = [_decomposed(block, network.weights, scheme, bits.weights) for block in network.blocks]

    def logits(self, pixels: NDArray[np.uint8]) -> Float32:
        """Logits [N, labels] of pixels uint8 [N, H, W, C] in the network's own channels."""
        (logits,) = self.outputs(pixels)
        return logits.reshape(len(logits), -1)

    def outputs(self, pixels: NDArray[np.uint8]) -> tuple[Float32, ...]:
        """The network's outputs [N, H, W, C], in their order."""
        tensors = self.tensors(pixels)
        names = {block.after: block.name for block in self._blocks}
        return tuple(tensors[names[name]] for name in self._model.outputs)

    def tensors(self, pixels: NDArray[np.uint8]) -> dict[str, Float32]:
        """The real numbers of every block's output [N, H, W, C], by the block's name, after quantization."""
        table = self._image.table
        channels = np.arange(pixels.shape[3]) if len(table) > 1 else 0
        tensors: dict[str, Float32] = {INPUT: _real(table[channels, pixels], self._image.kind)}
        for block in self._blocks:
            result = run_layer(block.core, [tensors[name] for name in block.inputs])
            if block.relu is not None:
                result = run_layer(block.relu, [result])
            tensors[block.name] = result
            if block.name in self._types and block.after not in self._model.outputs:
                tensors[block.name] = _quantized(result, self._types[block.name])
        return tensors


def _decomposed(block: Block, weights: Mapping[str, Float32], scheme: Binary, bases: Mapping[str, int]) -> Block:
    """The block with the decoded weights and its folded bias."""
    core = block.core
    if not isinstance(core, Conv | Dense):
        return block
    weight = scheme.decomposition(weights[block.name], bases[block.name]).decode().astype(np.float32)
    bias = folded(block)[1]
    return replace(block, core=replace(core, weight=weight.reshape(core.weight.shape), bias=bias), norm=None)


def _quantized(x: Float32, kind: TensorType) -> Float32:
    integers = np.clip(np.floor(x / np.float32(kind.scale) + np.float32(0.5)) + kind.zero_point, kind.lo, kind.hi)
    return _real(integers, kind)


def _real(integers: NDArray[np.generic], kind: TensorType) -> Float32:
    return (integers.astype(np.float32) - np.float32(kind.zero_point)) * np.float32(kind.scale)
