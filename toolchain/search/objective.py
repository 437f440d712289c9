"""What a choice of bits costs: sizes, operations, and Kondo and Yamashita's objective."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.search.config import Objective

WEIGHTS, FEATURES = "weights.", "features."
"""How the parameters of layers and of feature maps begin."""

_FLOAT_BITS, _FULL_BITS = 32, 10
"""Bits of a float weight, and those that the paper counts for a feature map that is not quantized."""


@dataclass(frozen=True)
class Sizes:
    """Wb / Wf, qb / qf, bytes of the weights with their factors (Wb / 8, rounded up), and bit operations.

    packed_bytes: of the weights without the scale of each channel.
    """

    weights: float
    features: float
    bytes: int
    packed_bytes: int
    bit_operations: int


class Costs:
    """Counts the sizes of the choices of one network."""

    def __init__(self, network: BitNetwork) -> None:
        self._network = network
        self._shapes = {name: weight.shape for name, weight in network.weights.items()}
        self._full_weights = _FLOAT_BITS * sum(weight.size for weight in network.weights.values())
        self._full_features = _FULL_BITS * sum(network.maps.sizes.values())
        self._products = {name: network.products(name) for name in network.layers}
        self.float_bytes = self._full_weights // 8

    def weight_share(self, layer: str, width: int) -> float:
        """A layer's part of Wb / Wf."""
        return self._network.scheme.size(self._shapes[layer], width) / self._full_weights

    def packed_bytes(self, layer: str, width: int) -> int:
        """Bytes of a layer's weights side by side, as a model file has them.

        A channel's one scale goes into its requantization, as a float network's batch norm does, and does not count.
        Binary factors count, 64 bits each.
        """
        return -(-self._network.scheme.packed(self._shapes[layer], width) // 8)

    def feature_share(self, name: str, bits: int) -> float:
        """A map's part of qb / qf: Q z of every layer that reads it."""
        maps = self._network.maps
        elements = sum(maps.sizes[layer] for layer, read in maps.of_layer.items() if read == name)
        return bits * elements / self._full_features

    def of(self, bits: Bits) -> Sizes:
        """The sizes of a choice."""
        stored = sum(self._network.scheme.size(self._shapes[name], bits.weights[name]) for name in bits.weights)
        features = sum(self.feature_share(name, bits.maps[name]) for name in bits.maps)
        operations = sum(
            self._products[name] * bits.weights[name] * bits.maps[self._network.maps.of_layer[name]]
            for name in self._network.layers
        )
        packed = sum(self.packed_bytes(name, bits.weights[name]) for name in bits.weights)
        return Sizes(stored / self._full_weights, features, -(-stored // 8), packed, operations)


def objective(factors: Objective, float_accuracy: float, accuracy: float, sizes: Sizes) -> float:
    """C = alpha |o - r| + beta Wb / Wf + gamma qb / qf, with o and r as shares 0..1 of the same images."""
    distance = abs(float_accuracy - accuracy)
    return float(factors.alpha * distance + factors.beta * sizes.weights + factors.gamma * sizes.features)


def flat(bits: Bits) -> dict[str, int]:
    """A choice as the parameters of a trial."""
    weights = {WEIGHTS + name: value for name, value in bits.weights.items()}
    return weights | {FEATURES + name: value for name, value in bits.maps.items()}


def bits_of(parameters: Mapping[str, int]) -> Bits:
    """The choice of a trial's parameters."""
    parts: dict[str, dict[str, int]] = {"weights": {}, "features": {}}
    for key, value in parameters.items():
        kind, _, name = key.partition(".")
        parts[kind][name] = int(np.int64(value))
    return Bits(parts["weights"], parts["features"])
