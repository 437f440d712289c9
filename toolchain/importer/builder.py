"""Float layers, made one by one from the nodes of a file; all unsupported nodes are collected."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Constant, Float32, FloatLayer, Function, Shape
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.network import Network, Node, Quantization, printable
from edgemeta.toolchain.importer.values import (
    Axes,
    Columns,
    Flat,
    Grouped,
    Halves,
    Joined,
    Map,
    Pixels,
    Rows,
    Value,
    flat,
)
from edgemeta.toolchain.importer.views import arranged, plain

MAX_ELEMENTS = 1 << 27
"""Of one tensor."""
SHARING = 16
"""Bound on memory where a file lets many layers share a constant: all weights have at most so many times its bytes."""
_V = TypeVar("_V", bound=Value)


UNKNOWN = "this operator is not supported"
MOST_NAMED = 12
"""Operations that a refusal names one by one."""


class UnsupportedError(Exception):
    """A node that cannot be imported; the text is the reason."""


@dataclass(frozen=True)
class Imported:
    """The float layers of a network, and how each of its outputs is made of their tensors.

    notes: what was left out, and why it changes no answer. origins: the node that each layer was made of, by the
    layer's name. quantized: how the file stores the tensor of a layer, or the input, in integers; empty for a float
    network.
    """

    layers: tuple[FloatLayer, ...]
    outputs: Mapping[str, Value]
    notes: tuple[str, ...]
    origins: Mapping[str, Node] = field(default_factory=dict)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    channels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def with_parts(
        self, layers: tuple[FloatLayer, ...], parts: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> "Imported":
        """The same network of other layers, some of which are output channels of the layer that is named with them."""
        origins, quantized = dict(self.origins), dict(self.quantized)
        for name, (whole, _) in parts.items():
            if whole in self.origins:
                origins[name] = self.origins[whole]
            if whole in self.quantized:
                quantized[name] = self.quantized[whole]
        channels = {name: chosen for name, (_, chosen) in parts.items()}
        return replace(self, layers=layers, origins=origins, quantized=quantized, channels=channels)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that the outputs are made of, in order, each once."""
        return tuple(dict.fromkeys(each.tensor for value in self.outputs.values() for each in maps_of(value)))


def maps_of(value: Value) -> tuple[Map, ...]:
    """The maps that a value shows."""
    match value:
        case Map():
            return (value,)
        case Flat():
            return (Map(value.tensor, value.shape),)
        case Grouped() | Halves() | Pixels() | Axes():
            return (value.map,)
        case Columns() | Rows():
            return value.maps
        case Joined():
            return tuple(Map(each.tensor, each.shape) for each in value.parts)


def with_maps(value: _V, maps: tuple[Map, ...]) -> _V:
    """The same view of other maps."""
    match value:
        case Map():
            return maps[0]  # type: ignore[return-value]
        case Flat():
            return replace(value, tensor=maps[0].tensor, shape=maps[0].shape)
        case Grouped() | Halves() | Pixels() | Axes():
            return replace(value, map=maps[0])
        case Columns() | Rows():
            return replace(value, maps=maps)
        case Joined():
            parts = zip(value.parts, maps, strict=True)
            return replace(value, parts=tuple(replace(each, tensor=map_.tensor) for each, map_ in parts))
    raise AssertionError(value)


class Builder:
    """Takes nodes in order. values: what each ONNX tensor is, by its name. layers: by name, in order."""

    def __init__(self, graph: Network) -> None:
        self.graph = graph
        _, channels, height, width = graph.input_shape
        image = Map(INPUT, (height, width, channels))
        self.values: dict[str, Value] = {graph.input: image if graph.input_order == "chw" else Pixels(image)}
        self.layers: dict[str, FloatLayer] = {}
        self._shapes: dict[str, Shape] = {INPUT: (height, width, channels)}
        self.notes: list[str] = list(graph.notes)
        self.problems: list[str] = []
        self._lost: set[str] = set()
        self._origins: dict[str, Node] = {}
        self._room = SHARING * sum(4 * each.size for each in graph.constants.values()) + (1 << 20)
        self._node: Node | None = None
        self._quantized: dict[str, Quantization] = {}
        self._note_quantization(graph.input, self.values[graph.input])

    def take(self, node: Node, convert: Callable[["Builder", Node], Value | tuple[Value, ...]] | None) -> None:
        """Convert one node, or note why that is impossible. What follows from an impossible one is skipped."""
        if any(name in self._lost for name in node.inputs):
            self._lost.update(node.outputs)
            if convert is None:
                self._lose(node, UNKNOWN)
            return
        self._node = node
        try:
            if convert is None:
                raise UnsupportedError(UNKNOWN)
            made = convert(self, node)
        except (UnsupportedError, ModelError) as error:
            self._lose(node, str(error))
            return
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # attributes and constants of any kind
            self._lose(node, f"what the file says of it is not consistent ({type(error).__name__})")
            return
        for name, value in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=False):
            self.values[name] = value
            self._note_quantization(name, value)

    def _lose(self, node: Node, reason: str) -> None:
        self.problems.append(f"{node.place}: {' '.join(reason.split())}")
        self._lost.update(node.outputs)

    def _note_quantization(self, name: str, value: Value) -> None:
        """What the file says of a tensor holds for the maps that it shows; the first word counts."""
        if name in self.graph.quantization:
            for each in maps_of(value):
                self._quantized.setdefault(each.tensor, self.graph.quantization[name])

    def value(self, node: Node, number: int = 0) -> Value:
        """What an input is. Raises UnsupportedError for a constant where a tensor is expected."""
        name = node.inputs[number]
        if name not in self.values:
            raise UnsupportedError(f"input {number} is a constant, expected a tensor")
        return self.values[name]

    def map(self, node: Node, number: int = 0) -> Map:
        """An input that must be a map: [1, C, H, W], or [1, C] of one pixel."""
        value = self.image(node, number)
        if not isinstance(value, Map):
            raise UnsupportedError(f"its input has the form {self.shape(node.inputs[number])}, expected [1, C, H, W]")
        return value

    def pixels(self, node: Node, number: int = 0) -> Map:
        """The map of an input that must be [1, H, W, C]."""
        value = self.value(node, number)
        if not isinstance(value, Pixels):
            raise UnsupportedError(f"its input has the form {self.shape(node.inputs[number])}, expected [1, H, W, C]")
        return value.map

    def image(self, node: Node, number: int = 0) -> Map | Pixels:
        """An input that must be a map, its channels first or last; [1, C] of one pixel counts as [1, C, H, W]."""
        value = self.value(node, number)
        if isinstance(value, Flat) and value.shape[:2] == (1, 1):
            return Map(value.tensor, value.shape)
        if isinstance(value, Axes) and len(value.axes) == 4 and value.shape[0] == 1:
            value = arranged(self, value, (2,), (3,), (1,)) or value
        if not isinstance(value, Map | Pixels):
            raise UnsupportedError(f"its input has the form {self.shape(node.inputs[number])}, expected a map")
        return value

    def map_of(self, tensor: str) -> Map:
        """A tensor of the float graph."""
        return Map(tensor, self._shapes[tensor])

    def flat(self, node: Node, number: int = 0) -> Flat | Joined:
        """An input that must be [1, elements], or is read so."""
        value = self.value(node, number)
        if isinstance(value, Pixels):
            return flat(value.map, "hwc")
        if not isinstance(value, Flat | Joined):
            raise UnsupportedError(f"its input has the form {self.shape(node.inputs[number])}, expected [1, elements]")
        return value

    def is_constant(self, node: Node, number: int) -> bool:
        """Whether an input is given and constant."""
        return len(node.inputs) > number and node.inputs[number] in self.graph.constants

    def constant(self, node: Node, number: int) -> NDArray[Any] | None:
        """A constant input [...]; None if it is left out. Raises UnsupportedError for one that is computed."""
        if len(node.inputs) <= number or not node.inputs[number]:
            return None
        if node.inputs[number] not in self.graph.constants:
            raise UnsupportedError(f"input {number} is computed, expected a constant")
        return self.graph.constants[node.inputs[number]]

    def required(self, node: Node, number: int) -> NDArray[Any]:
        """A constant input [...] that must be given."""
        found = self.constant(node, number)
        if found is None:
            raise UnsupportedError(f"input {number} is missing")
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an ONNX tensor. Raises UnsupportedError if it is not known."""
        if name not in self.graph.shapes:
            raise UnsupportedError(f"the shape of {name!r} depends on the input")
        return self.graph.shapes[name]

    def add(self, layer: FloatLayer) -> Map:
        """Append a layer, under another name if its name is in use. Raises ModelError."""
        layer = replace(layer, name=self._unique(layer.name))
        shape = layer.shape(*(self._shapes[source] for source in layer.sources))
        if prod(shape) > MAX_ELEMENTS:
            raise UnsupportedError(f"gives a tensor of shape {shape}, expected at most {MAX_ELEMENTS} elements")
        self._room -= sum(value.nbytes for value in vars(layer).values() if isinstance(value, np.ndarray))
        if self._room < 0:
            raise UnsupportedError(f"the layers up to here have {SHARING} times the weights of the file")
        if self._node is not None:
            self._origins[layer.name] = self._node
        self.layers[layer.name], self._shapes[layer.name] = layer, shape
        return Map(layer.name, shape)

    def add_constant(self, node: Node, number: int, source: str, values: NDArray[Any]) -> Map:
        """A layer that gives an input of a node that is constant; values [H, W, C]: as a map; source: any tensor.

        Where the file stores it in integers, the layer has these.
        """
        made = self.add(Constant(f"{node.outputs[0]}.constant", source, values=float32(values)))
        known = self.graph.quantization.get(node.inputs[number])
        if known is not None:
            self.quantize(made, replace(known, values=None))
        return made

    def each(self, value: Value, name: str, make: Callable[[str, Map], FloatLayer]) -> Value:
        """The layer that `make` gives for a name and a map, for every map that a value shows; the view stays."""
        if isinstance(value, Axes):
            value = plain(self, value)
        maps = maps_of(value)
        names = [name] if len(maps) == 1 else [f"{name}.{i}" for i in range(len(maps))]
        return with_maps(value, tuple(self.add(make(each, source)) for each, source in zip(names, maps, strict=True)))

    def function_before(self, tensor: str, function: str) -> str | None:
        """The input of the layer that makes a tensor, if it is that function and the file stores no integers of it."""
        layer = self.layers.get(tensor)
        if not isinstance(layer, Function) or layer.function != function or tensor in self._quantized:
            return None
        return layer.input

    def quantization_of(self, tensor: str) -> Quantization | None:
        """How the file stores a tensor of the float graph in integers, if it does."""
        return self._quantized.get(tensor)

    def quantize(self, source: Map, known: Quantization) -> None:
        """Say how a tensor that the file does not have follows from one that it stores in integers."""
        self._quantized.setdefault(source.tensor, known)

    def finish(self) -> Imported:
        """The layers that the outputs need."""
        outputs = {name: self.values[name] for name in self.graph.outputs if name in self.values}
        imported = Imported((), outputs, tuple(self.notes), self._origins, self._quantized)
        needed = set(imported.tensors)
        kept: list[FloatLayer] = []
        for layer in reversed(self.layers.values()):
            if layer.name in needed:
                needed.update(layer.sources)
                kept.append(layer)
        return replace(imported, layers=tuple(reversed(kept)))

    def _unique(self, name: str) -> str:
        base = printable(name) or "layer"
        number, result = 1, base
        while result in self.layers or result == INPUT:
            number, result = number + 1, f"{base}.{number}"
        return result


def build_network(
    network: Network,
    operators: Mapping[str, Callable[[Builder, Node], Value | tuple[Value, ...]]],
    path: Path,
) -> Imported:
    """The float layers of a network, its nodes converted by name. Raises ImportedFileError naming all it cannot."""
    build = Builder(network)
    for node in network.nodes:
        build.take(node, operators.get(node.op))
    if build.problems:
        listed = "; ".join(build.problems[:MOST_NAMED])
        if more := build.problems[MOST_NAMED:]:
            kinds = Counter(problem.split()[0] for problem in more)
            listed += "; and of " + ", ".join(f"{op} {count} more" for op, count in kinds.items())
        many = "operation" if len(build.problems) == 1 else "operations"
        raise ImportedFileError(f"{path}: {len(build.problems)} {many} cannot be imported: {listed}")
    return build.finish()


def float32(values: NDArray[Any]) -> Float32:
    """Float32 [...] of any numbers [...]."""
    return np.ascontiguousarray(values, np.float32)
