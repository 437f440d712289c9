"""Integer networks with a chosen number of bits for the weights of each layer and for each feature map.

Everything that does not depend on the choice is computed once: statistics of the float network, decompositions and
roundings of each layer for each width, types of each feature map for each number of bits. A network of ResNet-8's size
is then built in milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import Float32, Shape, TensorType
from edgemeta.model.preprocess import pixel_table
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import compares_channels
from edgemeta.model.weights import Weights
from edgemeta.toolchain.quantize.blocks import Block, blocks_of, folded
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.image import image_table, image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.ranges import Histogram, Statistics
from edgemeta.toolchain.quantize.types import Sharing, sharing_of, tensor_types
from edgemeta.toolchain.quantize.weight_schemes import WeightScheme
from edgemeta.toolchain.quantize.weights import magnitude

_FRACTIONS = np.geomspace(0.1, 1.0, 24)
"""Parts of the observed range that are tried, on each side of 0."""

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Numbers [n] of numbers [n]."""


def shifted_type(least: float, greatest: float, shape: Shape, bits: int) -> TensorType:
    """The unsigned type of so many bits for a range around 0; its step is the range's width over 2**bits - 1."""
    if least == greatest:
        return TensorType(shape, bits, signed=False)
    step = (greatest - least) / ((1 << bits) - 1)
    return TensorType(shape, bits, signed=False, zero_point=int(np.floor(-least / step + 0.5)), scale=step)


def least_error_type(histogram: Histogram, shape: Shape, bits: int, function: Function | None = None) -> TensorType:
    """The shifted type of least square error for a tensor, over a grid of both ends of its range.

    function: what a lookup table computes from the tensor, if nothing else reads it; then its result's error counts.
    """
    filled = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[filled], histogram.counts[filled].astype(np.float64)
    wanted = centres if function is None else function(centres)
    best, least_error = shifted_type(histogram.least, histogram.greatest, shape, bits), np.inf
    for least in _ends(histogram.least):
        for greatest in _ends(histogram.greatest):
            if least == greatest:
                continue
            kind = shifted_type(least, greatest, shape, bits)
            integers = np.clip(np.floor(centres / kind.scale + 0.5) + kind.zero_point, 0, kind.hi).astype(np.int64)
            levels = kind.scale * (np.arange(1 << bits, dtype=np.float64) - kind.zero_point)
            found = levels if function is None else function(levels)
            error = float((counts * np.square(found[integers] - wanted)).sum())
            if error < least_error:
                best, least_error = kind, error
    return best


def _ends(end: float) -> list[float]:
    return (end * _FRACTIONS).tolist() if end else [0.0]


@dataclass(frozen=True)
class ImageOfBits:
    """The image tensor's type of so many bits, and the table that gives it for pixels."""

    kind: TensorType
    table: NDArray[np.int8] | NDArray[np.uint8]


def image_of_bits(model: FloatModel, bits: int) -> ImageOfBits:
    """At 8 bits the image as every scheme takes it; with fewer, over the range of all channels, 0 included."""
    if bits == 8:
        return ImageOfBits(image_type(model), image_table(model))
    mean, scale = np.array(model.mean), np.array(model.scale)
    least, greatest = min(0.0, (-mean / scale).min()), max(0.0, ((255 - mean) / scale).max())
    kind = shifted_type(float(least), float(greatest), model.input_shape, bits)
    return ImageOfBits(kind, pixel_table(kind, model.mean, model.scale))


class FeatureMaps:
    """The feature maps that a network's layers with weights read, and the types of all tensors for their bits.

    of_layer: layer -> the map that it reads, by the name of the first tensor that has its type (layers that read the
    same map, or maps that share a type, have the same name here). sizes: layer -> elements of its map.
    """

    def __init__(
        self, model: FloatModel, shapes: Mapping[str, Shape], blocks: Sequence[Block], statistics: Statistics
    ) -> None:
        self._model, self._shapes, self._blocks, self._statistics = model, shapes, blocks, statistics
        self._sharing: Sharing = sharing_of(blocks, statistics, "mse")
        made = {INPUT: model.input_shape} | {block.name: shapes[block.after] for block in blocks}
        readers = [block for block in blocks if block.has_weights]
        self.of_layer = {block.name: self._sharing.representative(block.inputs[0]) for block in readers}
        self.sizes = {block.name: int(np.prod(made[block.inputs[0]])) for block in readers}
        self._plain = tensor_types(image_type(model), shapes, blocks, statistics, "mse")
        self._known: dict[tuple[str, int], TensorType] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Every map once, in the order of the layers that read them."""
        return tuple(dict.fromkeys(self.of_layer.values()))

    def is_read(self, name: str) -> bool:
        """Whether a layer with weights reads this tensor, or one of its type."""
        return self._sharing.representative(name) in self.names

    def types(self, bits: Mapping[str, int]) -> dict[str, TensorType]:
        """Types of every block's output and of "input". bits: of each map; tensors that no such layer reads have 8."""
        types = dict(self._plain)
        for name, kind in self._plain.items():
            root = self._sharing.representative(name)
            if root in bits:
                types[name] = replace(self._type(root, bits[root]), shape=kind.shape)
        return types

    def _type(self, root: str, bits: int) -> TensorType:
        if (root, bits) not in self._known:
            if root == INPUT:
                kind = image_of_bits(self._model, bits).kind
            else:
                block = self._sharing.decides[root]
                histogram = self._statistics.histograms[block.after]
                kind = least_error_type(histogram, (0, 0, 0), bits, self._sharing.functions.get(block.name))
            self._known[root, bits] = kind
        return self._known[root, bits]


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
        shapes, self.blocks = prove_float(model, model.name), blocks_of(model)
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
        policy = Folded(integers, "multiplier", compares_channels(self.model.task))
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
