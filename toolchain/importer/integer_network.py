"""A network that its file stores in integers, as integer layers with the file's own scales and zero points.

The file says for each tensor which integers it has; so nothing is measured or chosen here. A tensor that it says
nothing of belongs to a layer and the activation behind it, which become one integer layer, or to a layer that only
moves integers.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, types_of
from edgemeta.model.layers import (
    Affine,
    BatchNorm,
    Float32,
    FloatLayer,
    Homogeneous,
    Layer,
    Moving,
    Relu,
    Shape,
    TensorType,
    Weighted,
)
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import ImportedFileError, QuantizeError
from edgemeta.toolchain.importer.builder import Imported, UnsupportedError
from edgemeta.toolchain.importer.joined_tables import join_tables
from edgemeta.toolchain.importer.network import Network, Quantization
from edgemeta.toolchain.importer.wide_weights import within_int8
from edgemeta.toolchain.quantize.blocks import renamed
from edgemeta.toolchain.quantize.lower import Node, Numbers, Policy, bounds, lower
from edgemeta.toolchain.quantize.scales import INT32_MAX, int32_bias, multiplier_for

_UNIT = 127
"""The integer weight of a factor that the file has no integers of."""
_MOST_STEPS = 255
"""Greatest distance of a uint8 weight from its zero point."""


@dataclass(frozen=True)
class IntegerNetwork:
    """Integer layers, the type of the image, and the layers whose tensors are the result."""

    layers: tuple[Layer, ...]
    input: TensorType
    outputs: tuple[str, ...]

    @property
    def types(self) -> Mapping[str, TensorType]:
        """Type of every tensor, by name, the input's first."""
        return types_of(self.input, self.layers)


def integer_network(network: Network, imported: Imported, outputs: tuple[str, ...], path: Path) -> IntegerNetwork:
    """The integer layers of a network; outputs: the tensors wanted. Raises ImportedFileError naming all that has none.

    The layers may be fewer than those of the file, but no others.
    """
    _, channels, height, width = network.input_shape
    try:
        if INPUT not in imported.quantized:
            raise UnsupportedError("the input has no scale and zero point, as only a part of the network is quantized")
        converter = _Converter(network, imported, (height, width, channels), outputs)
        converter.run()
        problems = converter.problems
    except UnsupportedError as error:
        problems = [str(error)]
    if problems:
        raise ImportedFileError(f"{path}: the integers of this network cannot be kept: {'; '.join(problems)}")
    final = tuple(converter.final[name] for name in outputs)
    image = converter.types[INPUT]
    return IntegerNetwork(join_tables(converter.layers, image, final), image, final)


class _Converter:
    """Takes the float layers in order. types: of every integer tensor. final: where a float layer's tensor is now."""

    def __init__(self, network: Network, imported: Imported, image: Shape, outputs: tuple[str, ...]) -> None:
        self.network, self.imported, self.outputs = network, imported, outputs
        self.shapes: dict[str, Shape] = {INPUT: image}
        self.types = {INPUT: _type(imported.quantized[INPUT], image)}
        self.final = {INPUT: INPUT}
        self.layers: list[Layer] = []
        self.problems: list[str] = []
        self._readers = Counter(name for layer in imported.layers for name in layer.sources)
        self._activations = {layer.sources[0]: layer for layer in imported.layers if layer.limits is not None}
        self._quantized = self._before_moves()

    def _before_moves(self) -> dict[str, Quantization]:
        """How tensors are stored, with those that a file quantizes only once their elements have moved."""
        known = dict(self.imported.quantized)
        for layer in reversed(self.imported.layers):
            if isinstance(layer, Moving) and len(layer.sources) == 1 and layer.name in known:
                (source,) = layer.sources
                if self._readers[source] == 1 and source not in self.outputs:
                    known.setdefault(source, known[layer.name])
        return known

    def run(self) -> None:
        joined: set[str] = set()
        for layer in self.imported.layers:
            self.shapes[layer.name] = layer.shape(*(self.shapes[name] for name in layer.sources))
            if layer.name in joined or any(name not in self.final for name in layer.sources):
                continue  # a part of another layer, or behind one that is in `problems`
            activation = self._activation_of(layer)
            try:
                self._convert(layer, activation)
            except (QuantizeError, UnsupportedError) as error:
                self.problems.append(f"{self._place(layer)}: {error}")
                continue
            if activation is not None:
                joined.add(activation.name)
                self.final[activation.name] = self.final[layer.name]

    def _activation_of(self, layer: FloatLayer) -> FloatLayer | None:
        """The activation that becomes part of a layer which computes: the only reader of a tensor without integers."""
        if isinstance(layer, Homogeneous):
            return None
        after = self._activations.get(layer.name)
        is_only = self._readers[layer.name] == 1 and layer.name not in self.outputs
        return after if is_only and layer.name not in self._quantized else None

    def _place(self, layer: FloatLayer) -> str:
        origin = self.imported.origins.get(layer.name)
        return origin.place if origin is not None else layer.name

    def _convert(self, layer: FloatLayer, activation: FloatLayer | None) -> None:
        inputs = tuple(self.final[name] for name in layer.sources)
        sources = tuple(self.types[name] for name in inputs)
        shape = self.shapes[layer.name]
        name = layer.name if activation is None else activation.name
        is_raw = False
        if name in self._quantized:
            out = _type(self._quantized[name], shape)
        elif isinstance(layer, Homogeneous) or layer.limits is not None:
            out = replace(sources[0], shape=shape)
        elif isinstance(layer, Weighted) and layer.name in self.outputs and not self._readers[layer.name]:
            out, is_raw = TensorType(shape), True
        else:
            raise UnsupportedError("its result is not quantized, expected a scale and a zero point")
        block = renamed(layer, name, inputs)
        if getattr(layer, "factor", None) == (1, 1):
            if replace(sources[0], shape=shape) == out:
                self.final[layer.name] = inputs[0]
                return
            block = replace(block, core=Relu(name, inputs[0]))
        elif layer.limits is not None:
            block = replace(block, core=Relu(name, inputs[0]))
        low, high = (activation if activation is not None else layer).limits or (None, None)
        node = Node(block, sources, out, *bounds(low, high, out), is_raw)
        policy = _FromFile(layer, self.network, self.imported)
        for made in [_affine(layer, node)] if isinstance(layer, BatchNorm) else lower(node, policy):
            self.layers.append(made)
            self.types[made.name] = made.output
        self.final[layer.name] = made.name


@dataclass(frozen=True, eq=False)
class _FromFile(Policy):
    """The file's own integers of a layer's weights."""

    layer: FloatLayer
    network: Network
    imported: Imported

    def weighted(self, node: Node) -> Numbers:
        """As Policy; raises UnsupportedError, too."""
        layer, (source,) = self.layer, node.sources
        assert isinstance(layer, Weighted)
        weights, bias = self._integers(layer, source, node.is_raw)
        if not node.is_raw:
            units = source.scale * weights.scale
            requantize = multiplier_for(units / node.out.scale, node.lo, node.hi, layer.name)
            return Numbers(weights, bias, requantize, node.out)
        if len(np.unique(weights.scale)) == 1:
            weights = replace(weights, scale=weights.scale[:1])
        scale = source.scale * (float(weights.scale[0]) if weights.scale.shape == (1,) else 1.0)
        return Numbers(weights, bias, None, TensorType(node.out.shape, 32, scale=scale))

    def _integers(
        self, layer: Weighted[Float32], source: TensorType, is_raw: bool
    ) -> tuple[FixedWeights, NDArray[np.int32] | None]:
        origin, known = self.imported.origins.get(layer.name), self.network.quantization
        if origin is None:
            raise UnsupportedError("it is a part of a layer of the file, whose integers cannot be split yet")
        numbers = [number for number in origin.inputs if number in known and known[number].values is not None]
        if not numbers or numbers[0] not in origin.inputs[:2]:
            raise UnsupportedError("its weights are not quantized, expected int8")
        weight, chosen = known[numbers[0]], self.imported.channels.get(layer.name)
        if chosen is not None:
            weight = _chosen(weight, chosen)
        if not (weight.scale > 0).all() or len(weight.scale) not in (1, len(layer.weights)):
            count = len(layer.real_weights)
            raise UnsupportedError(f"{len(weight.scale)} scales for {count} outputs, each above 0 expected")
        per_output = weight.scale.reshape(-1, *[1] * (layer.weights.ndim - 1))
        exact = layer.weights.astype(np.float64) / per_output
        integers = np.rint(exact)
        if np.abs(exact - integers).max() > 1e-3 or np.abs(integers).max() > _MOST_STEPS:
            raise UnsupportedError(
                f"weights of {integers.min():g} to {integers.max():g} steps from their zero point, expected whole "
                f"numbers of at most {_MOST_STEPS}"
            )
        narrow, steps = within_int8(integers, is_one=is_raw and len(weight.scale) == 1)
        values = FixedWeights(narrow, 8, weight.scale * steps)
        stored = known.get(origin.inputs[2]) if len(origin.inputs) > 2 else None
        stored = _chosen(stored, chosen) if stored and chosen is not None else stored
        greatest = max(source.hi - source.zero_point, source.zero_point - source.lo)
        reach = np.abs(narrow.astype(np.int64)).reshape(len(narrow), -1).sum(axis=1) * greatest
        return values, self._bias(layer, source.scale * values.scale, stored, reach)

    def _bias(
        self,
        layer: Weighted[Float32],
        units: NDArray[np.float64],
        stored: Quantization | None,
        reach: NDArray[np.int64],
    ) -> NDArray[np.int32] | None:
        """The stored integers if their steps are those of the accumulator, else the nearest ones.

        reach [O]: of the sums without it. A bias that leaves them no room, as channels have that are always 0, is the
        nearest one that does.
        """
        if layer.bias is None:
            return None
        if stored is not None and stored.values is not None and np.allclose(stored.scale, units, rtol=1e-5, atol=0):
            bias = np.broadcast_to(stored.values.astype(np.int32), layer.bias.shape)
            return np.clip(bias, reach - INT32_MAX, INT32_MAX - reach).astype(np.int32)
        return int32_bias(layer.bias.astype(np.float64) / units, layer.name)


def _chosen(known: Quantization, channels: tuple[int, ...]) -> Quantization:
    """How the file stores some output channels; its integers are those of a bias, or only told to exist."""
    each = list(channels)
    many = len(known.scale) > 1
    values = known.values
    return replace(
        known,
        scale=known.scale[each] if many else known.scale,
        zero_point=known.zero_point[each] if len(known.zero_point) > 1 else known.zero_point,
        values=values[each] if values is not None and values.ndim == 1 and len(values) > 1 else values,
    )


def _type(known: Quantization, shape: Shape) -> TensorType:
    if len(known.scale) != 1 or not known.scale[0] > 0:
        raise UnsupportedError(f"a tensor has {len(known.scale)} scales, expected one above 0")
    kind = TensorType(shape, 8, known.signed, int(known.zero_point[0]), float(known.scale[0]))
    if not kind.lo <= kind.zero_point <= kind.hi:
        raise UnsupportedError(f"a zero point of {kind.zero_point}, expected {kind.lo} .. {kind.hi}")
    return kind


def _affine(layer: BatchNorm, node: Node) -> Affine:
    """Factor and summand of each channel: factors of one size, scales for the rest."""
    source, out = node.sources[0], node.out
    factor = layer.gamma.astype(np.float64) / np.sqrt(layer.variance.astype(np.float64) + layer.eps)
    summand = layer.beta.astype(np.float64) - layer.mean.astype(np.float64) * factor
    scale = np.where(factor == 0, out.scale / source.scale, np.abs(factor)) / _UNIT
    units = source.scale * scale
    return Affine(
        node.name,
        node.block.inputs[0],
        out,
        factors=(np.sign(factor) * _UNIT).astype(np.int8),
        scale=scale,
        bias=int32_bias(summand / units, layer.name),
        requantize=multiplier_for(units / out.scale, node.lo, node.hi, layer.name),
    )
