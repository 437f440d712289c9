"""Functions that exporters write as several operations, recognized before the layers are made: GELU and layer norm."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import pi, sqrt
from typing import Any

import numpy as np

from edgemeta.toolchain.importer.network import Network, Node

_NEAR = 1e-3


def with_patterns(network: Network) -> Network:
    """The same network, each group of operations that is a GELU or a layer norm replaced by its last one.

    Of a network in integers only layer norms, whose parts a file stores coarsely, with a note.
    """
    seen = _without_steps(network)
    matcher, rules = _Matcher(replace(network, nodes=seen)), (_tflite_layer_norm,) if network.quantization else _RULES
    nodes = []
    for node, plain in zip(network.nodes, seen, strict=True):
        found = next((made for rule in rules if (made := rule(matcher, plain)) is not None), None)
        nodes.append(node if found is None else found)
    if all(one is other for one, other in zip(nodes, network.nodes, strict=True)):
        return network
    notes = (*network.notes, _WHOLE) if network.quantization else network.notes
    return replace(network, nodes=tuple(_needed(nodes, network.outputs)), notes=notes)


_WHOLE = "its layer norms are computed as a whole, without the file's rounding of their parts"


def _without_steps(network: Network) -> tuple[Node, ...]:
    """The nodes, each reading what is in front of a change between integers and real numbers."""
    plain: dict[str, str] = {}
    nodes = []
    for node in network.nodes:
        made = replace(node, inputs=tuple(plain.get(name, name) for name in node.inputs)) if plain else node
        if node.op in ("QUANTIZE", "DEQUANTIZE"):
            plain[node.outputs[0]] = made.inputs[0]
        nodes.append(made)
    return tuple(nodes)


def _needed(nodes: list[Node], outputs: tuple[str, ...]) -> list[Node]:
    """The nodes that outputs are made of, in their order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= set(node.inputs)
            kept.append(node)
    return kept[::-1]


class _Matcher:
    """What makes a tensor, and which constants there are."""

    def __init__(self, network: Network) -> None:
        self.constants, self.shapes = network.constants, network.shapes
        self._made_by = {name: node for node in network.nodes for name in node.outputs}
        self.readers = Counter(name for node in network.nodes for name in node.inputs)

    def maker(self, name: str, *ops: str) -> Node | None:
        """The node that makes a tensor, if it is one of these operators."""
        node = self._made_by.get(name)
        return node if node is not None and node.op in ops and not node.attributes.get("act") else None

    def number(self, name: str) -> float | None:
        """The one number of a constant."""
        found = self.constants.get(name)
        return float(found.reshape(())) if found is not None and found.size == 1 else None

    def is_number(self, name: str, wanted: float) -> bool:
        """Whether a constant is about this number."""
        found = self.number(name)
        return found is not None and abs(found - wanted) <= _NEAR * abs(wanted)

    def sides(self, node: Node) -> Iterator[tuple[str, str]]:
        """The two inputs of a sum or product, in both orders."""
        yield from ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))

    def scaled(self, name: str, source: str | None = None) -> tuple[float, str] | None:
        """A tensor as a number times another one, of the name `source` where one is given."""
        if name == source:
            return 1.0, name
        node = self.maker(name, "Mul", "Div")
        if node is None:
            return None
        for one, other in self.sides(node):
            number = self.number(other)
            if number is not None and one not in self.constants and (node.op == "Mul" or other == node.inputs[1]):
                return (number if node.op == "Mul" else 1 / number), one
        return None


def _factors(matcher: _Matcher, name: str) -> tuple[float, list[str]]:
    """A product as a number and the tensors that are multiplied."""
    node = matcher.maker(name, "Mul")
    if node is None:
        return 1.0, [name]
    number = 1.0
    names: list[str] = []
    for each in node.inputs:
        if (value := matcher.number(each)) is not None:
            number *= value
        elif matcher.readers[each] > 1:  # x itself may be a product
            names.append(each)
        else:
            part, more = _factors(matcher, each)
            number, names = number * part, names + more
    return number, names


def _gelu(matcher: _Matcher, node: Node) -> Node | None:
    """The function x * (1 + erf(x / sqrt 2)) / 2, or 1 + tanh(...), its factors in any order."""
    if node.op != "Mul":
        return None
    number, names = _factors(matcher, node.outputs[0])
    if len(names) != 2 or abs(number - 0.5) > _NEAR:
        return None
    for x, other in (names, names[::-1]):
        total = matcher.maker(other, "Add")
        for inner, one in matcher.sides(total) if total is not None else ():
            if not matcher.is_number(one, 1.0):
                continue
            erf, tanh = matcher.maker(inner, "Erf"), matcher.maker(inner, "Tanh")
            found = matcher.scaled(erf.inputs[0]) if erf is not None else None
            if found is not None and found[1] == x and abs(found[0] - sqrt(0.5)) < _NEAR:
                return replace(node, op="Gelu", inputs=(x,), attributes={})
            if tanh is not None and _is_cubic(matcher, tanh.inputs[0], x):
                return replace(node, op="Gelu", inputs=(x,), attributes={"approximate": "tanh"})
    return None


def _is_cubic(matcher: _Matcher, name: str, x: str) -> bool:
    """Whether a tensor is sqrt(2 / pi) * (x + 0.044715 x**3)."""
    found = matcher.scaled(name)
    total = matcher.maker(found[1], "Add") if found is not None else None
    if found is None or total is None or abs(found[0] - sqrt(2 / pi)) > _NEAR:
        return False
    for one, other in matcher.sides(total):
        if one != x:
            continue
        number, names = _factors(matcher, other)
        power = matcher.maker(names[0], "Pow") if len(names) == 1 else None
        is_power = power is not None and power.inputs[0] == x and matcher.is_number(power.inputs[1], 3.0)
        return abs(number - 0.044715) < 1e-5 and (is_power or names == [x, x, x])
    return False


def _layer_norm(matcher: _Matcher, node: Node) -> Node | None:
    """(x - mean) / sqrt(mean of its square + eps); the factor and the summand stay a product and a sum."""
    if node.op != "Div":
        return None
    away, root = matcher.maker(node.inputs[0], "Sub"), matcher.maker(node.inputs[1], "Sqrt")
    total = matcher.maker(root.inputs[0], "Add") if root is not None else None
    if away is None or total is None:
        return None
    x, mean = away.inputs[0], matcher.maker(away.inputs[1], "ReduceMean")
    if mean is None or mean.inputs[0] != x:
        return None
    for inner, number in matcher.sides(total):
        eps, squared = matcher.number(number), matcher.maker(inner, "ReduceMean")
        if eps is None or squared is None or not _is_square(matcher, squared.inputs[0], x, mean.outputs[0]):
            continue
        axes = _axes(matcher, mean)
        if axes is not None and axes == _axes(matcher, squared):
            return replace(node, op="LayerNormalization", inputs=(x,), attributes={"axes": axes, "epsilon": eps})
    return None


def _is_square(matcher: _Matcher, name: str, x: str, mean: str) -> bool:
    """Whether a tensor is (x - mean)**2."""
    node = matcher.maker(name, "Pow", "Mul")
    if node is None or (node.op == "Pow" and not matcher.is_number(node.inputs[1], 2.0)):
        return False
    bases = [matcher.maker(each, "Sub") for each in (node.inputs if node.op == "Mul" else node.inputs[:1])]
    return all(base is not None and base.inputs == (x, mean) for base in bases)


def _axes(matcher: _Matcher, node: Node) -> tuple[int, ...] | None:
    """The axes of a mean that keeps them, counted from the first one."""
    given: Any = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        given = matcher.constants.get(node.inputs[1])
    shape = matcher.shapes.get(node.inputs[0])
    if given is None or shape is None or not node.attributes.get("keepdims", 1):
        return None
    return tuple(sorted(int(axis) % len(shape) for axis in np.ravel(given)))


def _tflite_layer_norm(matcher: _Matcher, node: Node) -> Node | None:
    """As `_layer_norm` by TFLite's operators, or x * g + (beta - mean * g), g = gamma / deviation, as Keras has it."""
    if node.op == "MUL":
        for away, root in matcher.sides(node):
            less, found = matcher.maker(away, "SUB"), _deviation(matcher, root)
            if less is not None and found is not None and (*less.inputs,) == found[:2]:
                attributes = {**node.attributes, "axes": (found[3] - 1,), "epsilon": found[2]}
                return replace(node, op="LayerNormalization", inputs=(found[0],), attributes=attributes)
    for one, other in matcher.sides(node) if node.op == "ADD" else ():
        scaled, shift = matcher.maker(one, "MUL"), matcher.maker(other, "SUB")
        moved = matcher.maker(shift.inputs[1], "MUL") if shift is not None else None
        if scaled is None or shift is None or moved is None or shift.inputs[0] not in matcher.constants:
            continue
        for x, factor in matcher.sides(scaled):
            product = matcher.maker(factor, "MUL")
            for root, gamma in matcher.sides(product) if product is not None else ():
                found = _deviation(matcher, root)
                is_it = gamma in matcher.constants and found is not None and found[0] == x
                if is_it and found is not None and sorted(moved.inputs) == sorted((found[1], factor)):
                    given = {**node.attributes, "axis": -1, "epsilon": found[2]}
                    inputs = (x, gamma, shift.inputs[0])
                    return replace(node, op="LayerNormalization", inputs=inputs, attributes=given)
    return None


def _deviation(matcher: _Matcher, name: str) -> tuple[str, str, float, int] | None:
    """Of 1 / sqrt(mean of (x - mean)**2 + eps) over the last axis: x, mean, eps and how many axes x has."""
    root = matcher.maker(name, "RSQRT")
    total = matcher.maker(root.inputs[0], "ADD") if root is not None else None
    for inner, number in matcher.sides(total) if total is not None else ():
        eps, variance = matcher.number(number), matcher.maker(inner, "MEAN")
        square = matcher.maker(variance.inputs[0], "SQUARED_DIFFERENCE", "SQUARE", "MUL") if variance else None
        less = square if square is None or square.op == "SQUARED_DIFFERENCE" else matcher.maker(square.inputs[0], "SUB")
        if eps is None or variance is None or square is None or less is None:
            continue
        for x, mean in matcher.sides(less):
            middle, rank = matcher.maker(mean, "MEAN"), len(matcher.shapes.get(x, ()))
            both = [matcher.constants.get(each.inputs[1]) for each in (middle, variance) if each is not None]
            is_last = len(both) == 2 and all(
                axes is not None and axes.size == 1 and int(axes.ravel()[0]) % max(rank, 1) == rank - 1 for axes in both
            )
            is_square = square.op != "MUL" or square.inputs[0] == square.inputs[1]
            if middle is not None and middle.inputs[0] == x and is_last and is_square:
                return x, mean, eps, rank
    return None


_RULES: tuple[Callable[[_Matcher, Node], Node | None], ...] = (_gelu, _layer_norm, _tflite_layer_norm)
