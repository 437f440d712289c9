"""Functions of one element, and sums and products, with constants and of two tensors."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Add, BatchNorm, Function, Product, Relu, Upsample
from edgemeta.model.layers.functions import FunctionName
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32, maps_of, with_maps
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.values import Columns, Flat, Map, Pixels, Rows, Value

Convert = Callable[[Builder, Node], Value]


def function(name: FunctionName, alpha: float = 0.0, beta: float = 0.0) -> Convert:
    """A node that is a function of each element; alpha and beta where the node does not give its own."""

    def convert(build: Builder, node: Node) -> Value:
        a, b = float(node.attributes.get("alpha", alpha)), float(node.attributes.get("beta", beta))
        return build.each(
            build.value(node), node.outputs[0], lambda final, source: Function(final, source.tensor, name, a, b)
        )

    return convert


def relu(build: Builder, node: Node) -> Value:
    """Relu."""
    return build.each(build.value(node), node.outputs[0], lambda name, source: Relu(name, source.tensor))


def clip(build: Builder, node: Node) -> Value:
    """Clip: from 0 a ReLU, with a ceiling or without, else a function; without bounds a change of integers only."""
    low, high = (_bound(build, node, number, name) for number, name in ((1, "min"), (2, "max")))
    if low is None and high is None:
        return place_of(build, node)
    return clipped(build, build.value(node), node.outputs[0], low, high)


def place_of(build: Builder, node: Node) -> Value:
    """The value itself; if the file quantizes input and output, an identity layer (upsample by 1) between them."""
    value = build.value(node)
    if node.inputs[0] not in build.graph.quantization or node.outputs[0] not in build.graph.quantization:
        return value
    return build.each(value, node.outputs[0], lambda name, source: Upsample(name, source.tensor, factor=(1, 1)))


def clipped(build: Builder, value: Value, name: str, low: float | None, high: float | None) -> Value:
    """The layer that keeps a value within bounds. Raises UnsupportedError for bounds that no layer has."""
    if low == 0 and (high is None or high > 0):
        return build.each(value, name, lambda final, source: Relu(final, source.tensor, high))
    if low is None or high is None or not low < high:
        raise UnsupportedError(f"a clip to {low} .. {high}, expected two bounds, or 0 as the lower bound")
    return build.each(value, name, lambda final, source: Function(final, source.tensor, "clip", low, high))


def _bound(build: Builder, node: Node, number: int, name: str) -> float | None:
    given = build.constant(node, number)
    value = node.attributes.get(name) if given is None else float(given.reshape(()))
    return None if value is None or abs(value) > 1e30 else float(value)


def prelu(build: Builder, node: Node) -> Value:
    """PRelu with one slope: a leaky ReLU."""
    slopes = np.unique(build.required(node, 1))
    if len(slopes) != 1:
        raise UnsupportedError("a slope for each channel, expected one for all")
    return build.each(
        build.value(node),
        node.outputs[0],
        lambda name, source: Function(name, source.tensor, "leaky_relu", float(slopes[0])),
    )


def batch_norm(build: Builder, node: Node) -> Value:
    """BatchNormalization in inference."""
    gamma, beta, mean, variance = (float32(build.required(node, number)) for number in (1, 2, 3, 4))
    eps = float(node.attributes.get("epsilon", 1e-5))
    return build.each(
        build.value(node),
        node.outputs[0],
        lambda name, source: BatchNorm(name, source.tensor, gamma, beta, mean, variance, eps),
    )


def add(build: Builder, node: Node) -> Value:
    """Add: of two maps, or of one number for each channel."""
    if number := _constant_operand(build, node):
        return _affine(build, node, number, 1.0, +1.0)
    view, a, b = _two(build, node)
    if a.shape != b.shape:
        raise UnsupportedError(f"tensors of sizes {a.shape} and {b.shape} (H, W, C), expected equal ones")
    return with_maps(view, (build.add(Add(node.outputs[0], (a.tensor, b.tensor))),))


def subtract(build: Builder, node: Node) -> Value:
    """Sub of a constant, or from one."""
    match _constant_operand(build, node):
        case 2:
            return _affine(build, node, 2, 1.0, -1.0)
        case 1:
            return _affine(build, node, 1, -1.0, 1.0)
    raise UnsupportedError("a difference of two tensors, expected one constant")


def multiply(build: Builder, node: Node) -> Value:
    """Mul: of two maps, by one number for each channel, or x * sigmoid(x), which is one function."""
    if number := _constant_operand(build, node):
        return _affine(build, node, number, None, 0.0)
    view, a, b = _two(build, node)
    for gate, rest in ((a, b), (b, a)):
        for before, whole in _GATES:
            if build.function_before(gate.tensor, before) == rest.tensor and _is_standard(build, gate.tensor):
                return with_maps(view, (build.add(Function(node.outputs[0], rest.tensor, whole)),))
    if a.shape != b.shape and a.shape[:2] == (1, 1):
        a, b = b, a
    return with_maps(view, (build.add(Product(node.outputs[0], (a.tensor, b.tensor))),))


def _two(build: Builder, node: Node) -> tuple[Map | Pixels | Flat, Map, Map]:
    """How the result of two tensors is seen, and their maps."""
    views = [build.value(node, number) for number in (0, 1)]
    if all(isinstance(view, Flat) and view.shape[:2] == (1, 1) for view in views) and isinstance(views[0], Flat):
        return views[0], build.map(node, 0), build.map(node, 1)
    a, b = build.image(node, 0), build.image(node, 1)
    if any(isinstance(view, Pixels) for view in views) and any(isinstance(view, Map) for view in views):
        raise UnsupportedError("one tensor has its channels first, the other last")
    view = a if isinstance(a, Pixels) or not isinstance(b, Pixels) else b
    return view, maps_of(a)[0], maps_of(b)[0]


_GATES: tuple[tuple[FunctionName, FunctionName], ...] = (("sigmoid", "silu"), ("hard_sigmoid", "hard_swish"))
"""f, and the function x * f(x)."""


def _is_standard(build: Builder, tensor: str) -> bool:
    """Whether a hard sigmoid is that of hard swish; a sigmoid always is."""
    layer = build.layers[tensor]
    assert isinstance(layer, Function)
    return layer.function == "sigmoid" or (abs(layer.alpha - 1 / 6) < 1e-6 and layer.beta == 0.5)


def divide(build: Builder, node: Node) -> Value:
    """Div by a constant."""
    if _constant_operand(build, node) != 2:
        raise UnsupportedError("a division by a tensor, expected a constant")
    return _affine(build, node, 2, None, 0.0, is_inverse=True)


def _constant_operand(build: Builder, node: Node) -> int:
    """1 or 2 for the first or second operand, 0 if both are tensors."""
    return next((number + 1 for number in (0, 1) if build.is_constant(node, number)), 0)


def _affine(
    build: Builder, node: Node, constant: int, factor: float | None, sign: float, is_inverse: bool = False
) -> Value:
    """Per channel factor * x + sign * constant; with factor None constant * x, or x / constant."""
    value = build.value(node, 2 - constant)
    given = build.required(node, constant - 1).astype(np.float64)

    def make(name: str, source: Map) -> BatchNorm:
        channels = source.shape[2]
        numbers = _per_channel(given, value, channels)
        gamma = np.full(channels, factor) if factor is not None else 1 / numbers if is_inverse else numbers
        zero = np.zeros(channels)
        beta = sign * numbers if factor is not None else zero
        return BatchNorm(name, source.tensor, float32(gamma), float32(beta), float32(zero), float32(zero + 1), 0.0)

    return build.each(value, node.outputs[0], make)


def _per_channel(given: NDArray[np.float64], value: Value, channels: int) -> NDArray[np.float64]:
    """One number for each channel of a constant that is added to a view. Raises UnsupportedError."""
    if given.size == 1:
        return np.full(channels, given.reshape(()))
    if isinstance(value, Flat) and value.shape[:2] != (1, 1):
        raise UnsupportedError(f"a constant of shape {given.shape} for a flattened map, expected one number")
    rank, axis = {Map: (4, 1), Pixels: (4, 3), Flat: (2, 1), Columns: (3, 1), Rows: (3, 2)}.get(type(value), (0, 0))
    padded = given.reshape((1,) * (rank - given.ndim) + given.shape) if given.ndim <= rank else given
    if rank and padded.ndim == rank and padded.size == channels == padded.shape[axis]:
        return padded.ravel()
    raise UnsupportedError(f"a constant of shape {given.shape}, expected one number for each of {channels} channels")
