"""Integer networks with a chosen number of bits for the weights of each layer and for each feature map.

Everything that does not depend on the choice is computed once: statistics of the float network, decompositions and
roundings of each layer for each width, types of each feature map for each number of bits. A network of ResNet-8's size
is then built in milliseconds.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.weights import Weights
from edgemeta.toolchain.float_model.graph import Float32, FloatModel
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.quantize.blocks import blocks_of, folded
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.feature_maps import FeatureMaps, image_of_bits
from edgemeta.toolchain.quantize.folded import Choice, Folded
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.weight_schemes import WeightScheme
from edgemeta.toolchain.quantize.weights import magnitude


@dataclass(frozen=True)
class Bits:
    """A choice. weights: bits, or bases, of each layer with weights. maps: bits of each feature map that one reads."""

    weights: Mapping[str, int]
    maps: Mapping[str, int]


class BitNetwork:
    """Builds the integer networks of one float network under one weight scheme.

    layers: names of the layers with weights, in order. maps: the feature maps that they read. weights: folded weights
    [O, ...] of each layer. scores: layers whose weights have one scale, so that their sums can be compared.
    """

    def __init__(self, model: FloatModel, images: PreparedImages, scheme: WeightScheme, events: Events) -> None:
        self.model, self.scheme = model, scheme
        shapes, self.blocks = check(model, model.name), blocks_of(model)
        statistics = Statistics(model, self.blocks, images, events.stage("ranges"))
        self.maps = FeatureMaps(model, shapes, self.blocks, statistics)
        both = {block.name: folded(block) for block in self.blocks if block.has_weights}
        self.weights: Mapping[str, Float32] = {name: weight for name, (weight, _) in both.items()}
        self.layers = tuple(both)
        self._outputs = {block.name: shapes[block.after] for block in self.blocks}
        self._raw = raw_outputs(model, self.blocks)
        self.scores = self._raw if model.is_classification else frozenset()
        self._integers = _ChosenWeights(scheme, both)

    def with_scheme(self, scheme: WeightScheme) -> "BitNetwork":
        """The same float network, with the same statistics, under another weight scheme."""
        other = copy(self)
        other.scheme, other._integers = scheme, self._integers.with_scheme(scheme)
        return other

    def products(self, layer: str) -> int:
        """Multiplications of a layer for one image."""
        weight, output = self.weights[layer], self._outputs[layer]
        return int(np.prod(output[:2])) * weight.size

    def uniform(self, width: int, map_bits: int) -> Bits:
        """The choice with the same numbers everywhere."""
        return Bits(dict.fromkeys(self.layers, width), dict.fromkeys(self.maps.names, map_bits))

    def build(self, bits: Bits) -> Model:
        """The integer network of a choice. Raises QuantizeError where a number does not fit."""
        integers = self._integers.with_widths(bits.weights)
        types = self.maps.types(bits.maps)
        policy = Folded(integers, Choice("mse", "multiplier"), self.model.is_classification)
        built = Lowering(self.model, self.blocks, types, policy, self._raw).build()
        image = image_of_bits(self.model, bits.maps.get(INPUT, 8))
        provenance = {"scheme": self.scheme.name, "weights": dict(bits.weights), "feature_bits": dict(bits.maps)}
        preprocessing = replace(built.preprocessing, table=image.table)
        return replace(built, input=image.kind, preprocessing=preprocessing, provenance=provenance)


class _ChosenWeights:
    """The weights of a choice, as `folded.Integers`; those of a width and step are computed once."""

    def __init__(self, scheme: WeightScheme, both: Mapping[str, tuple[Float32, Float32]]) -> None:
        self._scheme, self._both = scheme, both
        self._widths: Mapping[str, int] = {}
        self._known: dict[tuple[str, int, bool], Weights] = {}

    def with_scheme(self, scheme: WeightScheme) -> "_ChosenWeights":
        """The same weights under another scheme; nothing is known of them."""
        return _ChosenWeights(scheme, self._both)

    def with_widths(self, widths: Mapping[str, int]) -> "_ChosenWeights":
        """The same weights and what is known of them, for other widths."""
        other = _ChosenWeights(self._scheme, self._both)
        other._widths, other._known = widths, self._known
        return other

    def bias(self, name: str) -> NDArray[np.float64]:
        """As Integers."""
        return self._both[name][1].astype(np.float64)

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """As Integers."""
        return magnitude(self._both[name][0])

    def integers(self, name: str, per_channel: bool, least_scale: NDArray[np.float64]) -> Weights:
        """As Integers."""
        key, weight = (name, self._widths[name], per_channel), self._both[name][0]
        if key not in self._known:
            self._known[key] = self._scheme.integers(weight, key[1], per_channel, np.zeros(len(weight)))
        free = self._known[key]
        if (free.scale >= (least_scale if per_channel else least_scale.max())).all():
            return free
        return self._scheme.integers(weight, key[1], per_channel, least_scale)
