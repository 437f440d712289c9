"""A network that its file stores in integers, as integer layers with the file's own scales and zero points.

The file says for each tensor which integers it has; so nothing is measured or chosen here. A tensor that it says
nothing of belongs to a layer and the activation behind it, which become one integer layer, or to a layer that only
moves integers.
"""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import FixedWeights, Weights
from edgemeta.toolchain.errors import ImportedFileError, QuantizeError
from edgemeta.toolchain.float_model.functions import evaluate
from edgemeta.toolchain.float_model.graph import (
    INPUT,
    Add,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    Function,
    GlobalAverage,
    Pad,
    Pool,
    Product,
    Relu,
    ResizeBilinear,
    Shape,
    Slice,
    Upsample,
    inputs_of,
)
from edgemeta.toolchain.float_model.shapes import output_shape
from edgemeta.toolchain.importer.builder import Imported, UnsupportedError
from edgemeta.toolchain.importer.joined_tables import join_tables
from edgemeta.toolchain.importer.network import Network, Quantization
from edgemeta.toolchain.quantize.scales import add_factors, int32_bias, multiplier_for

_UNIT = 127
"""The integer weight of a factor that the file has no integers of."""


@dataclass(frozen=True)
class IntegerNetwork:
    """Integer layers, the type of the image, and the layers whose tensors are the result."""

    layers: tuple[q.Layer, ...]
    input: TensorType
    outputs: tuple[str, ...]


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
        self.layers: list[q.Layer] = []
        self.problems: list[str] = []
        self._readers = Counter(name for layer in imported.layers for name in inputs_of(layer))
        self._activations = {
            layer.input: layer for layer in imported.layers if isinstance(layer, Relu | Function) and _is_bounded(layer)
        }

    def run(self) -> None:
        joined: set[str] = set()
        for layer in self.imported.layers:
            self.shapes[layer.name] = output_shape(layer, [self.shapes[name] for name in inputs_of(layer)])
            if layer.name in joined or any(name not in self.final for name in inputs_of(layer)):
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

    def _activation_of(self, layer: FloatLayer) -> Relu | Function | None:
        """The activation that becomes part of a layer: the only reader of a tensor that has no integers."""
        after = self._activations.get(layer.name)
        is_only = self._readers[layer.name] == 1 and layer.name not in self.outputs
        return after if is_only and layer.name not in self.imported.quantized else None

    def _place(self, layer: FloatLayer) -> str:
        origin = self.imported.origins.get(layer.name)
        return origin.place if origin is not None else layer.name

    def _convert(self, layer: FloatLayer, activation: Relu | Function | None) -> None:
        sources = [self.types[self.final[name]] for name in inputs_of(layer)]
        name = layer.name if activation is None else activation.name
        shape = self.shapes[layer.name]
        if isinstance(layer, _MOVING) or (isinstance(layer, Pool) and layer.kind == "max"):
            self._move(layer, sources, shape)
            return
        if name in self.imported.quantized:
            out = _type(self.imported.quantized[name], shape)
        elif _is_bounded(layer):
            out = replace(sources[0], shape=shape)
        elif isinstance(layer, Conv | Dense) and layer.name in self.outputs and not self._readers[layer.name]:
            self._append(name, self._raw(layer, sources[0], shape))
            return
        else:
            raise UnsupportedError("its result is not quantized, expected a scale and a zero point")
        lo, hi = _bounds(activation if activation is not None else layer, out)
        self._append(layer.name, self._layer(layer, name, sources, out, lo, hi))

    def _layer(
        self, layer: FloatLayer, name: str, sources: list[TensorType], out: TensorType, lo: int, hi: int
    ) -> q.Layer:
        inputs = [self.final[each] for each in inputs_of(layer)]
        first = sources[0]
        match layer:
            case Conv():
                weights, bias, requantize = self._weighted(layer, first, out, lo, hi)
                stride, padding, groups, dilation = layer.stride, layer.padding, layer.groups, layer.dilation
                return q.Conv(name, inputs[0], out, weights, bias, stride, padding, groups, requantize, dilation)
            case Dense():
                return q.Dense(name, inputs[0], out, *self._weighted(layer, first, out, lo, hi))
            case BatchNorm():
                weights, bias, requantize = _affine(layer, first, out, lo, hi)
                channels = out.shape[2]
                return q.Conv(name, inputs[0], out, weights, bias, groups=channels, requantize=requantize)
            case Add():
                pair, shift = add_factors(first, sources[1], out)
                return q.Add(name, (inputs[0], inputs[1]), out, pair, shift, lo, hi)
            case Product():
                factor = np.array([first.scale * sources[1].scale / out.scale])
                return q.Product(name, (inputs[0], inputs[1]), out, multiplier_for(factor, lo, hi, name))
            case GlobalAverage() | Pool():
                kernel, stride, padding = first.shape[:2], first.shape[:2], (0, 0, 0, 0)
                if isinstance(layer, Pool):
                    kernel, stride, padding = layer.kernel, layer.stride, layer.padding
                factor = np.array([first.scale / (out.scale * kernel[0] * kernel[1])])
                mean = multiplier_for(factor, lo, hi, name)
                return q.AveragePool(name, inputs[0], out, kernel, stride, mean, padding)
            case Function() if not _is_bounded(layer):
                return q.Lookup(name, inputs[0], out, _table(layer, first, out))
            case Relu() | Function():
                if _quantization(first) == _quantization(out):
                    return q.Clamp(name, inputs[0], out, lo, hi)
                return self._rescale(name, inputs[0], first, out, lo, hi)
        raise AssertionError(layer)

    def _raw(self, layer: Conv | Dense, source: TensorType, shape: Shape) -> q.Layer:
        """The last layer, whose accumulators are the result: its real numbers are not quantized in the file."""
        made = self._layer(layer, layer.name, [source], TensorType(shape), 0, 0)
        assert isinstance(made, q.Conv | q.Dense)
        weights = _one_scale(made.weights)
        scale = source.scale * (float(weights.scale[0]) if weights.scale.shape == (1,) else 1.0)
        return replace(made, weights=weights, output=TensorType(shape, 32, scale=scale), requantize=None)

    def _weighted(
        self, layer: Conv | Dense, source: TensorType, out: TensorType, lo: int, hi: int
    ) -> tuple[FixedWeights, NDArray[np.int32] | None, q.Multiplier]:
        """The file's own integers."""
        origin, known = self.imported.origins.get(layer.name), self.network.quantization
        if origin is None:
            raise UnsupportedError("it is a part of a layer of the file, whose integers cannot be split yet")
        numbers = [number for number in origin.inputs if number in known and known[number].values is not None]
        if not numbers or numbers[0] not in origin.inputs[:2]:
            raise UnsupportedError("its weights are not quantized, expected int8")
        weight = known[numbers[0]]
        if not (weight.scale > 0).all() or len(weight.scale) not in (1, len(layer.weight)):
            raise UnsupportedError(f"{len(weight.scale)} scales for {len(layer.weight)} outputs, each above 0 expected")
        per_output = weight.scale.reshape(-1, *[1] * (layer.weight.ndim - 1))
        exact = layer.weight.astype(np.float64) / per_output
        integers = np.rint(exact)
        if np.abs(exact - integers).max() > 1e-3 or integers.min() < -128 or integers.max() > 127:
            raise UnsupportedError(
                f"weights of {integers.min():g} to {integers.max():g} steps from their zero point, expected int8"
            )
        units = source.scale * weight.scale
        requantize = multiplier_for(units / out.scale, lo, hi, layer.name)
        values = FixedWeights(integers.astype(np.int8), 8, weight.scale.copy())
        bias = self._bias(layer, units, known.get(origin.inputs[2]) if len(origin.inputs) > 2 else None)
        return values, bias, requantize

    def _bias(
        self, layer: Conv | Dense, units: NDArray[np.float64], stored: Quantization | None
    ) -> NDArray[np.int32] | None:
        """The stored integers if their steps are those of the accumulator, else the nearest ones."""
        if layer.bias is None:
            return None
        if stored is not None and stored.values is not None and np.allclose(stored.scale, units, rtol=1e-5, atol=0):
            return np.broadcast_to(stored.values.astype(np.int32), layer.bias.shape).copy()
        return int32_bias(layer.bias.astype(np.float64) / units, layer.name)

    def _move(self, layer: FloatLayer, sources: list[TensorType], shape: Shape) -> None:
        """A layer that keeps its input's quantization; a Rescale before or behind it where the file changes that."""
        known = self.imported.quantized.get(layer.name)
        out = _type(known, shape) if known is not None else replace(sources[0], shape=shape)
        inputs = [self.final[each] for each in inputs_of(layer)]
        if isinstance(layer, Concat):
            for i, (each, kind) in enumerate(zip(inputs, sources, strict=True)):
                if _quantization(kind) != _quantization(out):
                    target = replace(out, shape=kind.shape)
                    rescale = self._rescale(f"{layer.name}.input{i}", each, kind, target, out.lo, out.hi)
                    inputs[i] = self._append(None, rescale)
            self._append(layer.name, q.Concat(layer.name, tuple(inputs), out))
            return
        kind = replace(sources[0], shape=shape)
        is_same = _quantization(kind) == _quantization(out)
        if isinstance(layer, Upsample) and layer.factor == (1, 1):
            if is_same:
                self.final[layer.name] = inputs[0]
            else:
                self._append(layer.name, self._rescale(layer.name, inputs[0], kind, out, out.lo, out.hi))
            return
        name = layer.name if is_same else f"{layer.name}.moved"
        moved = self._append(layer.name, _moved(layer, name, inputs[0], kind))
        if not is_same:
            self._append(layer.name, self._rescale(layer.name, moved, kind, out, out.lo, out.hi))

    def _rescale(self, name: str, source: str, kind: TensorType, out: TensorType, lo: int, hi: int) -> q.Rescale:
        return q.Rescale(name, source, out, multiplier_for(np.array([kind.scale / out.scale]), lo, hi, name))

    def _append(self, float_name: str | None, layer: q.Layer) -> str:
        self.layers.append(layer)
        self.types[layer.name] = layer.output
        if float_name is not None:
            self.final[float_name] = layer.name
        return layer.name


_MOVING = (Upsample, Pad, Slice, ChannelShuffle, ResizeBilinear, Concat)


def _one_scale(weights: Weights) -> Weights:
    """The same weights with one scale, if all outputs have the same."""
    is_one = isinstance(weights, FixedWeights) and len(np.unique(weights.scale)) == 1
    return replace(weights, scale=weights.scale[:1]) if is_one else weights


def _moved(layer: FloatLayer, name: str, source: str, out: TensorType) -> q.Layer:
    match layer:
        case Upsample():
            return q.Upsample(name, source, out, layer.factor)
        case Pad():
            return q.Pad(name, source, out, layer.padding, layer.spacing)
        case Slice():
            return q.Slice(name, source, out, layer.start, layer.stop, layer.step)
        case ChannelShuffle():
            return q.ChannelShuffle(name, source, out, layer.groups)
        case ResizeBilinear():
            return q.ResizeBilinear(name, source, out, layer.coordinates)
        case Pool():
            return q.MaxPool(name, source, out, layer.kernel, layer.stride, layer.padding)
    raise AssertionError(layer)


def _is_bounded(layer: FloatLayer) -> bool:
    """Whether a layer does nothing but keep its input within bounds."""
    return isinstance(layer, Relu) or (isinstance(layer, Function) and layer.function == "clip")


def _type(known: Quantization, shape: Shape) -> TensorType:
    if len(known.scale) != 1 or not known.scale[0] > 0:
        raise UnsupportedError(f"a tensor has {len(known.scale)} scales, expected one above 0")
    kind = TensorType(shape, 8, known.signed, int(known.zero_point[0]), float(known.scale[0]))
    if not kind.lo <= kind.zero_point <= kind.hi:
        raise UnsupportedError(f"a zero point of {kind.zero_point}, expected {kind.lo} .. {kind.hi}")
    return kind


def _quantization(kind: TensorType) -> tuple[bool, int, float]:
    return kind.signed, kind.zero_point, kind.scale


def _bounds(layer: FloatLayer, out: TensorType) -> tuple[int, int]:
    """The integers of an activation's bounds; those of the type for another layer."""
    low: float | None = None
    high: float | None = None
    if isinstance(layer, Relu):
        low, high = 0.0, layer.ceiling
    elif isinstance(layer, Function) and _is_bounded(layer):
        low, high = layer.alpha, layer.beta
    lo, hi = (_integer(bound, out) for bound in (low, high))
    return out.lo if lo is None else lo, out.hi if hi is None else hi


def _integer(real: float | None, out: TensorType) -> int | None:
    if real is None:
        return None
    return min(max(int(np.floor(real / out.scale + 0.5)) + out.zero_point, out.lo), out.hi)


def _table(layer: Function, source: TensorType, out: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1, 256]: f of the real number of each input integer, as the nearest output integer."""
    integers = np.arange(256) - (128 if source.signed else 0)
    real = (source.scale * (integers - source.zero_point)).astype(np.float32)
    values = evaluate(layer.function, real, layer.alpha, layer.beta).astype(np.float64)
    entries = np.clip(np.floor(values / out.scale + 0.5) + out.zero_point, out.lo, out.hi)
    table: NDArray[np.int8] | NDArray[np.uint8] = entries.astype(out.dtype)[np.newaxis]
    return table


def _affine(
    layer: BatchNorm, source: TensorType, out: TensorType, lo: int, hi: int
) -> tuple[FixedWeights, NDArray[np.int32], q.Multiplier]:
    """Factor and summand of each channel, as a convolution of one element: weights of one size, scales for the rest."""
    factor = layer.gamma.astype(np.float64) / np.sqrt(layer.variance.astype(np.float64) + layer.eps)
    summand = layer.beta.astype(np.float64) - layer.mean.astype(np.float64) * factor
    scale = np.where(factor == 0, out.scale / source.scale, np.abs(factor)) / _UNIT
    values = (np.sign(factor) * _UNIT).astype(np.int8).reshape(-1, 1, 1, 1)
    units = source.scale * scale
    requantize = multiplier_for(units / out.scale, lo, hi, layer.name)
    return FixedWeights(values, 8, scale), int32_bias(summand / units, layer.name), requantize
