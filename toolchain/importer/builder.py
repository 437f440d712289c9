"""Float layers, made one by one from the nodes of an ONNX file; all unsupported nodes are collected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.float_model.graph import (
    INPUT,
    Float32,
    FloatLayer,
    Function,
    MismatchError,
    Shape,
    inputs_of,
    output_shape,
)
from edgemeta.toolchain.importer.onnx_file import Node, OnnxGraph
from edgemeta.toolchain.importer.values import Columns, Flat, Grouped, Map, Pixels, Rows, Value

MAX_NAME = 150
_V = TypeVar("_V", bound=Value)


class UnsupportedError(Exception):
    """A node that cannot be imported; the text is the reason."""


@dataclass(frozen=True)
class Imported:
    """The float layers of a network, and how each of its outputs is made of their tensors.

    notes: what was left out, and why it changes no answer.
    """

    layers: tuple[FloatLayer, ...]
    outputs: Mapping[str, Value]
    notes: tuple[str, ...]

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
        case Grouped() | Pixels():
            return (value.map,)
        case Columns() | Rows():
            return value.maps


def with_maps(value: _V, maps: tuple[Map, ...]) -> _V:
    """The same view of other maps."""
    match value:
        case Map():
            return maps[0]  # type: ignore[return-value]
        case Flat():
            return replace(value, tensor=maps[0].tensor, shape=maps[0].shape)
        case Grouped() | Pixels():
            return replace(value, map=maps[0])
        case Columns() | Rows():
            return replace(value, maps=maps)
    raise AssertionError(value)


class Builder:
    """Takes nodes in order. values: what each ONNX tensor is, by its name. layers: by name, in order."""

    def __init__(self, graph: OnnxGraph) -> None:
        self.graph = graph
        _, channels, height, width = graph.input_shape
        self.values: dict[str, Value] = {graph.input: Map(INPUT, (height, width, channels))}
        self.layers: dict[str, FloatLayer] = {}
        self._shapes: dict[str, Shape] = {INPUT: (height, width, channels)}
        self.notes: list[str] = []
        self.problems: list[str] = []
        self._lost: set[str] = set()

    def take(self, node: Node, convert: Callable[["Builder", Node], Value | tuple[Value, ...]] | None) -> None:
        """Convert one node, or note why that is impossible. What follows from an impossible one is skipped."""
        if any(name in self._lost for name in node.inputs):
            self._lost.update(node.outputs)
            return
        try:
            if convert is None:
                raise UnsupportedError("this operator is not supported")
            made = convert(self, node)
        except (UnsupportedError, MismatchError) as error:
            self.problems.append(f"{node.place}: {error}")
            self._lost.update(node.outputs)
            return
        for name, value in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=False):
            self.values[name] = value

    def value(self, node: Node, number: int = 0) -> Value:
        """What an input is. Raises UnsupportedError for a constant where a tensor is expected."""
        name = node.inputs[number]
        if name not in self.values:
            raise UnsupportedError(f"input {number} is a constant, expected a tensor")
        return self.values[name]

    def map(self, node: Node, number: int = 0) -> Map:
        """An input that must be a map: [1, C, H, W], or [1, C] of one pixel."""
        value = self.value(node, number)
        if isinstance(value, Flat) and value.shape[:2] == (1, 1):
            return Map(value.tensor, value.shape)
        if not isinstance(value, Map):
            raise UnsupportedError(f"its input has the form {self.shape(node.inputs[number])}, expected [1, C, H, W]")
        return value

    def is_constant(self, node: Node, number: int) -> bool:
        """Whether an input is given and constant."""
        return len(node.inputs) > number and node.inputs[number] in self.graph.constants

    def constant(self, node: Node, number: int) -> NDArray[Any] | None:
        """A constant input; None if it is left out. Raises UnsupportedError for one that is computed."""
        if len(node.inputs) <= number or not node.inputs[number]:
            return None
        if node.inputs[number] not in self.graph.constants:
            raise UnsupportedError(f"input {number} is computed, expected a constant")
        return self.graph.constants[node.inputs[number]]

    def required(self, node: Node, number: int) -> NDArray[Any]:
        """A constant input that must be given."""
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
        """Append a layer, under another name if its name is in use. Raises MismatchError."""
        layer = replace(layer, name=self._unique(layer.name))
        shape = output_shape(layer, [self._shapes[source] for source in inputs_of(layer)])
        self.layers[layer.name], self._shapes[layer.name] = layer, shape
        return Map(layer.name, shape)

    def each(self, value: Value, name: str, make: Callable[[str, Map], FloatLayer]) -> Value:
        """The layer that `make` gives for a name and a map, for every map that a value shows; the view stays."""
        maps = maps_of(value)
        names = [name] if len(maps) == 1 else [f"{name}.{i}" for i in range(len(maps))]
        return with_maps(value, tuple(self.add(make(each, source)) for each, source in zip(names, maps, strict=True)))

    def function_before(self, tensor: str, function: str) -> str | None:
        """The input of the layer that makes a tensor, if it is that function."""
        layer = self.layers.get(tensor)
        return layer.input if isinstance(layer, Function) and layer.function == function else None

    def finish(self) -> Imported:
        """The layers that the outputs need."""
        outputs = {name: self.values[name] for name in self.graph.outputs if name in self.values}
        imported = Imported((), outputs, tuple(self.notes))
        needed = set(imported.tensors)
        kept: list[FloatLayer] = []
        for layer in reversed(self.layers.values()):
            if layer.name in needed:
                needed.update(inputs_of(layer))
                kept.append(layer)
        return replace(imported, layers=tuple(reversed(kept)))

    def _unique(self, name: str) -> str:
        base = "".join(char if char.isprintable() else "_" for char in name)[:MAX_NAME] or "layer"
        number, result = 1, base
        while result in self.layers or result == INPUT:
            number, result = number + 1, f"{base}.{number}"
        return result


def float32(values: NDArray[Any]) -> Float32:
    """Float32 of any numbers."""
    return np.ascontiguousarray(values, np.float32)
