"""Functions of one element, and sums and products, with constants and of two tensors."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Add, BatchNorm, Float32, FloatLayer, Function, PRelu, Product, Relu, Upsample
from edgemeta.model.layers.functions import FunctionName
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32, maps_of, with_maps
from edgemeta.toolchain.importer.network import Node, Quantization
from edgemeta.toolchain.importer.taking import spread
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


def gelu(build: Builder, node: Node) -> Value:
    """Gelu, exact or by tanh."""
    return function("gelu_tanh" if node.attributes.get("approximate", "none") == "tanh" else "gelu")(build, node)


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
    least, most = -_UNBOUNDED if low is None else low, _UNBOUNDED if high is None else high
    if not least < most:
        raise UnsupportedError(f"a clip to {low} .. {high}, expected the lower bound first")
    return build.each(value, name, lambda final, source: Function(final, source.tensor, "clip", least, most))


_UNBOUNDED = float(np.finfo(np.float32).max)
"""A bound that no number reaches."""


def _bound(build: Builder, node: Node, number: int, name: str) -> float | None:
    given = build.constant(node, number)
    value = node.attributes.get(name) if given is None else float(given.reshape(()))
    return None if value is None or abs(value) > 1e30 else float(value)


def prelu(build: Builder, node: Node) -> Value:
    """PRelu: with one slope a leaky ReLU."""
    value, slopes, name = build.value(node), build.required(node, 1).astype(np.float64), node.outputs[0]
    first = float(slopes.ravel()[0])
    if (slopes == first).all():
        return build.each(value, name, lambda final, source: Function(final, source.tensor, "leaky_relu", first))
    return build.each(
        value,
        name,
        lambda final, source: PRelu(final, source.tensor, float32(_per_channel(slopes, value, source.shape[2]))),
    )


def power(build: Builder, node: Node) -> Value:
    """Pow with one number as the exponent."""
    exponent = build.required(node, 1)
    if exponent.size != 1:
        raise UnsupportedError(f"exponents of shape {exponent.shape}, expected one")
    number = float(exponent.reshape(()))
    return build.each(
        build.value(node), node.outputs[0], lambda name, source: Function(name, source.tensor, "power", number)
    )


def negate(build: Builder, node: Node) -> Value:
    """Neg."""
    return _times(build, build.value(node), node.outputs[0], lambda channels: np.full(channels, -1.0))


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
    if number := constant_operand(build, node):
        return _affine(build, node, number, 1.0, +1.0)
    view, (a, b) = two(build, node)
    return with_maps(view, (_sum(build, a, b, node.outputs[0]),))


def _sum(build: Builder, a: Map, b: Map, name: str) -> Map:
    """Of two maps of one size; sides of 1 are repeated."""
    a, b = _of_one_shape(build, a, b, name)
    return build.add(Add(name, (a.tensor, b.tensor)))


def _of_one_shape(build: Builder, a: Map, b: Map, name: str) -> tuple[Map, Map]:
    sides = [max(pair) for pair in zip(a.shape, b.shape, strict=True)]
    shape = sides[0], sides[1], sides[2]
    return spread(build, a, f"{name}.first", shape), spread(build, b, f"{name}.second", shape)


def subtract(build: Builder, node: Node) -> Value:
    """Sub: of a constant, from one, or of two maps: the sum of one and the other's opposite."""
    match constant_operand(build, node):
        case 2:
            return _affine(build, node, 2, 1.0, -1.0)
        case 1:
            return _affine(build, node, 1, -1.0, 1.0)
    view, (a, b) = two(build, node)
    opposite = negated(build, b, f"{node.outputs[0]}.minus")
    return with_maps(view, (_sum(build, a, opposite, node.outputs[0]),))


def negated(build: Builder, source: Map, name: str) -> Map:
    """The opposite of a map; if the file quantizes it, with the mirrored integers, -1 - q or 255 - q."""
    made = scaled(build, source, name, -1.0)
    known = build.quantization_of(source.tensor)
    if known is not None:
        mirrored = (-1 if known.signed else 255) - known.zero_point
        build.quantize(made, Quantization(known.scale, mirrored, known.signed))
    return made


def shifted(build: Builder, source: Map, name: str, summand: float) -> Map:
    """A map plus one number."""
    layer = _scale(name, source, np.ones(source.shape[2]))
    return build.add(replace(layer, beta=float32(np.full(source.shape[2], summand))))


def scaled(build: Builder, source: Map, name: str, factor: float) -> Map:
    """A map times one number."""
    return maps_of(_times(build, source, name, lambda channels: np.full(channels, factor)))[0]


def _times(build: Builder, value: Value, name: str, factors: Callable[[int], NDArray[np.float64]]) -> Value:
    """A value times a number for each channel; what only scales before it is included, two signs cancel."""
    sources = []
    for source in maps_of(value):
        before = build.layers.get(source.tensor)
        wanted = factors(source.shape[2])
        if isinstance(before, BatchNorm) and not build.quantization_of(source.tensor):
            inner = is_scale(build, source.tensor, before.input)
            if inner is not None and (inner * wanted == 1).all():
                sources.append(build.map_of(before.input))
    if len(sources) == len(maps_of(value)):
        return with_maps(value, tuple(sources))
    return build.each(value, name, lambda final, source: _scaled_layer(build, final, source, factors(source.shape[2])))


def _scaled_layer(build: Builder, name: str, source: Map, gamma: NDArray[np.float64]) -> FloatLayer:
    """The layer that multiplies a map by a number for each channel; what it makes a function is that function.

    clip(x + b, 0, 1 / a) a is a hard sigmoid, and x clip(x + 3, 0, 6) / 6 a hard swish: one rounding, not four.
    """
    before, factor = build.layers.get(source.tensor), float(gamma[0])
    if (gamma == factor).all() and not build.quantization_of(source.tensor):
        if isinstance(before, Relu) and (gate := _shifted_clip(build, before, factor)):
            return Function(name, gate[0], "hard_sigmoid", factor, gate[1])
        for x, gated in (before.inputs, before.inputs[::-1]) if isinstance(before, Product) else ():
            gate = _shifted_clip(build, build.layers.get(gated), factor)
            if gate and gate[0] == x and _is_hard_swish(factor, gate[1]):
                return Function(name, x, "hard_swish")
    return _scale(name, source, gamma)


def _shifted_clip(build: Builder, layer: FloatLayer | None, factor: float) -> tuple[str, float] | None:
    """Of the layer clip(x + b, 0, 1 / factor): x and factor * b; None for another one, or whose integers are stored."""
    if not isinstance(layer, Relu) or layer.ceiling is None or abs(layer.ceiling * factor - 1) > _ABOUT:
        return None
    shift = build.layers.get(layer.input)
    if build.quantization_of(layer.name) or build.quantization_of(layer.input) or not isinstance(shift, BatchNorm):
        return None
    moved = (shift.gamma == 1).all() and (shift.variance == 1).all() and not shift.mean.any() and not shift.eps
    return (shift.input, factor * float(shift.beta[0])) if moved and (shift.beta == shift.beta[0]).all() else None


def _is_hard_swish(alpha: float, beta: float) -> bool:
    """Whether x times the hard sigmoid clip(alpha x + beta, 0, 1) is hard swish."""
    return abs(alpha - 1 / 6) < _ABOUT and abs(beta - 0.5) < _ABOUT


_ABOUT = 1e-6
"""How exactly files state factors of 1 / 6."""


def _scale(name: str, source: Map, gamma: NDArray[np.float64]) -> BatchNorm:
    zero = np.zeros(len(gamma))
    return BatchNorm(name, source.tensor, float32(gamma), float32(zero), float32(zero), float32(zero + 1), 0.0)


def is_scale(build: Builder, tensor: str, source: str) -> Float32 | None:
    """The factors [C] with which a layer makes a tensor of `source`, if it does nothing else."""
    layer = build.layers.get(tensor)
    if not isinstance(layer, BatchNorm) or layer.input != source or layer.beta.any() or layer.mean.any() or layer.eps:
        return None
    return layer.gamma if (layer.variance == 1).all() else None


def multiply(build: Builder, node: Node) -> Value:
    """Mul: of two maps, by one number for each channel, or x * sigmoid(x), which is one function."""
    if number := constant_operand(build, node):
        return _affine(build, node, number, None, 0.0)
    view, (a, b) = two(build, node)
    for gate, rest in ((a, b), (b, a)):
        for before, whole in _GATES:
            if build.function_before(gate.tensor, before) == rest.tensor and _is_standard(build, gate.tensor):
                return with_maps(view, (build.add(Function(node.outputs[0], rest.tensor, whole)),))
    if a.shape != b.shape and a.shape[:2] == (1, 1):
        a, b = b, a
    if b.shape != (1, 1, a.shape[2]):
        a, b = _of_one_shape(build, a, b, node.outputs[0])
    return with_maps(view, (build.add(Product(node.outputs[0], (a.tensor, b.tensor))),))


def two(build: Builder, node: Node, numbers: Sequence[int] = (0, 1)) -> tuple[Map | Pixels | Flat, list[Map]]:
    """How the result of two tensors, or of more, is seen, and their maps."""
    views = [build.value(node, number) for number in numbers]
    if all(isinstance(view, Flat) and view.shape[:2] == (1, 1) for view in views) and isinstance(views[0], Flat):
        return views[0], [build.map(node, number) for number in numbers]
    images = [build.image(node, number) for number in numbers]
    if any(isinstance(view, Pixels) for view in views) and any(isinstance(view, Map) for view in views):
        raise UnsupportedError("one tensor has its channels first, the other last")
    view = next((each for each in images if isinstance(each, Pixels)), images[0])
    return view, [maps_of(each)[0] for each in images]


_GATES: tuple[tuple[FunctionName, FunctionName], ...] = (("sigmoid", "silu"), ("hard_sigmoid", "hard_swish"))
"""f, and the function x * f(x)."""


def _is_standard(build: Builder, tensor: str) -> bool:
    """Whether a hard sigmoid is that of hard swish; a sigmoid always is."""
    layer = build.layers[tensor]
    assert isinstance(layer, Function)
    return layer.function == "sigmoid" or _is_hard_swish(layer.alpha, layer.beta)


def divide(build: Builder, node: Node) -> Value:
    """Div: by a constant, or by the inverse of a map."""
    match constant_operand(build, node):
        case 2:
            return _affine(build, node, 2, None, 0.0, is_inverse=True)
        case 1:
            inverse = build.each(build.value(node, 1), f"{node.outputs[0]}.inverse", _inverse)
            build.values[f"{node.outputs[0]}.inverse"] = inverse
            turned = Node(node.op, node.name, (node.inputs[0], f"{node.outputs[0]}.inverse"), node.outputs, {})
            return _affine(build, turned, 1, None, 0.0)
    view, (a, b) = two(build, node)
    divisor = build.add(_inverse(f"{node.outputs[0]}.inverse", b))
    if b.shape != (1, 1, a.shape[2]):
        a, divisor = _of_one_shape(build, a, divisor, node.outputs[0])
    return with_maps(view, (build.add(Product(node.outputs[0], (a.tensor, divisor.tensor))),))


def _inverse(name: str, source: Map) -> Function:
    return Function(name, source.tensor, "power", -1.0)


def constant_operand(build: Builder, node: Node) -> int:
    """1 or 2 for the first or second operand, 0 if both are tensors."""
    return next((number + 1 for number in (0, 1) if build.is_constant(node, number)), 0)


def _affine(
    build: Builder, node: Node, constant: int, factor: float | None, sign: float, is_inverse: bool = False
) -> Value:
    """Per channel factor * x + sign * constant; with factor None constant * x, or x / constant."""
    value = build.value(node, 2 - constant)
    given = build.required(node, constant - 1).astype(np.float64)

    if factor is None:

        def factors(channels: int) -> NDArray[np.float64]:
            numbers = _per_channel(given, value, channels)
            return 1 / numbers if is_inverse else numbers

        return _times(build, value, node.outputs[0], factors)

    def make(name: str, source: Map) -> BatchNorm:
        channels = source.shape[2]
        zero, beta = np.zeros(channels), sign * _per_channel(given, value, channels)
        gamma = np.full(channels, factor)
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
