"""Every layer of the integer network as ONNX operators on real numbers, between integers with our scales."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Dense,
    DepthToSpace,
    Layer,
    Lookup,
    MaxPool,
    Multiplier,
    Pad,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    Slice,
    Take,
    TensorType,
    Upsample,
)
from edgemeta.model.layers.functions import FunctionName, evaluate
from edgemeta.toolchain.exporter.qdq_graph import QdqGraph

_TOLERANCE = 1e-5
"""By which the factor of a requantization may differ from the ratio of the scales, relative."""

_PLAIN: dict[FunctionName, str] = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "hard_swish": "HardSwish",
    "softplus": "Softplus",
}


@dataclass(frozen=True)
class NamedFunction:
    """A function by its name in the float graph."""

    function: FunctionName
    alpha: float = 0.0
    beta: float = 0.0


class NotExpressibleError(Exception):
    """A layer that ONNX has no form for; the text is the reason."""


def write_layer(graph: QdqGraph, layer: Layer, types: dict[str, TensorType]) -> None:
    """Append a layer. types: of every tensor before it. Raises NotExpressibleError."""
    sources, layer = [types[name] for name in layer.sources], layer.equivalent
    if isinstance(layer, Lookup):
        _write_lookup(graph, layer, sources[0])
        return
    bounds = _check(layer, sources)
    out = layer.output
    lo, hi = bounds if bounds is not None else (out.lo, out.hi)
    is_clipped = out.bits <= 8 and (lo > out.lo or hi < out.hi)
    name = f"{layer.name}.linear" if is_clipped else layer.name
    _write(graph, layer, name, sources)
    if is_clipped:
        _write_clip(graph, name, layer.name, lo, hi, out)
    if out.bits <= 8:
        graph.quantized(layer.name, out)
    else:
        graph.dequantized[layer.name] = layer.name


def _write_clip(graph: QdqGraph, source: str, name: str, lo: int, hi: int, out: TensorType) -> None:
    if lo == out.zero_point and hi == out.hi:
        graph.node("Relu", [source], name)
        return
    low, high = (np.array((bound - out.zero_point) * out.scale, np.float32) for bound in (lo, hi))
    graph.node("Clip", [source, graph.constant(f"{name}.lo", low), graph.constant(f"{name}.hi", high)], name)


def _check(layer: Layer, sources: list[TensorType]) -> tuple[int, int] | None:
    """Check that the requantization is what the scales say; gives its bounds."""
    out = layer.output
    match layer:
        case Conv() | Dense():
            decoded = layer.weights.decode()
            if decoded.min() < -128 or decoded.max() > 127:
                raise NotExpressibleError(f"has weights of {decoded.min()} to {decoded.max()}, expected -128 to 127")
            return _bounds(layer.requantize, sources[0].scale * layer.weights.scale / out.scale)
        case Add():
            ratios = np.array([source.scale / out.scale for source in sources])
            _expect_factors(np.array(layer.multipliers) / 2.0**layer.shift, ratios, 1e-3)
            return layer.lo, layer.hi
        case Product():
            return _bounds(layer.requantize, np.array([sources[0].scale * sources[1].scale / out.scale]))
        case AveragePool():
            area = layer.area(sources[0].shape)
            return _bounds(layer.requantize, np.array([sources[0].scale / (out.scale * area)]))
        case Rescale():
            return _bounds(layer.requantize, np.array([sources[0].scale / out.scale]))
        case Clamp():
            return layer.lo, layer.hi
    return None


def _bounds(requantize: Requantize | None, ratios: NDArray[np.float64]) -> tuple[int, int] | None:
    if requantize is None:
        return None
    if not isinstance(requantize, Multiplier):
        raise NotExpressibleError("requantizes by a table, which QuantizeLinear cannot")
    _expect_factors(requantize.multiplier / 2.0 ** requantize.shift.astype(float), ratios, _TOLERANCE)
    return requantize.lo, requantize.hi


def _expect_factors(factors: NDArray[np.float64], ratios: NDArray[np.float64], tolerance: float) -> None:
    if not np.allclose(factors, ratios, rtol=tolerance, atol=1e-12):
        raise NotExpressibleError("requantizes by other factors than its scales, which QuantizeLinear cannot")


def _write(graph: QdqGraph, layer: Layer, name: str, sources: list[TensorType]) -> None:
    inputs = [graph.dequantized[each] for each in layer.sources]
    match layer:
        case Conv():
            values = layer.weights.decode().astype(np.int8).transpose(0, 3, 1, 2)
            weights = _weights(graph, layer, values, sources[0])
            strides, dilations = list(layer.stride), list(layer.dilation)
            pads = list(layer.padding)
            graph.node(
                "Conv", inputs + weights, name, strides=strides, pads=pads, group=layer.groups, dilations=dilations
            )
        case Dense():
            height, width, channels = sources[0].shape
            rows = layer.weights.decode().astype(np.int8).reshape(-1, height, width, channels)
            values = rows.transpose(0, 3, 1, 2).reshape(len(rows), -1)
            flat = graph.node("Flatten", inputs, f"{name}.flat")
            dense = graph.node("Gemm", [flat, *_weights(graph, layer, values, sources[0])], f"{name}.row", transB=1)
            shape = graph.constant(f"{name}.shape", np.array([1, len(rows), 1, 1], np.int64))
            graph.node("Reshape", [dense, shape], name)
        case Add():
            graph.node("Add", inputs, name)
        case Product():
            graph.node("Mul", inputs, name)
        case AveragePool():
            kernel, strides, pads = list(layer.kernel), list(layer.stride), list(layer.padding)
            counted = int(not layer.inside)
            graph.node(
                "AveragePool", inputs, name, kernel_shape=kernel, strides=strides, pads=pads, count_include_pad=counted
            )
        case MaxPool():
            kernel, strides = list(layer.kernel), list(layer.stride)
            graph.node("MaxPool", inputs, name, kernel_shape=kernel, strides=strides, pads=list(layer.padding))
        case Concat():
            graph.node("Concat", inputs, name, axis=1)
        case Rescale() | Clamp():
            graph.node("Identity", inputs, name)
        case Upsample() | ResizeBilinear():
            _write_resize(graph, layer, inputs[0], name)
        case Pad():
            _write_pad(graph, layer, inputs[0], name, sources[0].shape[2])
        case Slice():
            order = (2, 0, 1)
            starts, ends, steps = ([each[axis] for axis in order] for each in (layer.start, layer.stop, layer.step))
            parts = {"starts": starts, "ends": ends, "axes": [1, 2, 3], "steps": steps}
            numbers = [graph.constant(f"{name}.{key}", np.array(each, np.int64)) for key, each in parts.items()]
            graph.node("Slice", [inputs[0], *numbers], name)
        case ChannelShuffle():
            height, width, channels = layer.output.shape
            first, last = (
                graph.constant(f"{name}.{key}", np.array(shape, np.int64))
                for key, shape in (
                    ("groups", (1, layer.groups, channels // layer.groups, height, width)),
                    ("shape", (1, channels, height, width)),
                )
            )
            grouped = graph.node("Reshape", [inputs[0], first], f"{name}.grouped")
            turned = graph.node("Transpose", [grouped], f"{name}.exchanged", perm=[0, 2, 1, 3, 4])
            graph.node("Reshape", [turned, last], name)
        case DepthToSpace():
            graph.node("DepthToSpace", inputs, name, blocksize=layer.block, mode="DCR")
        case Take():
            source = inputs[0]
            for axis, key, places in ((2, "rows", layer.rows), (3, "columns", layer.columns), (1, "", layer.channels)):
                chosen = graph.constant(f"{name}.places{axis}", places.astype(np.int64))
                source = graph.node("Gather", [source, chosen], f"{name}.{key}" if key else name, axis=axis)
        case _:
            raise NotExpressibleError(f"is a {layer.kind}, which is not written")


def _weights(graph: QdqGraph, layer: Conv | Dense, values: NDArray[np.int8], source: TensorType) -> list[str]:
    scale = layer.weights.scale
    inputs = [graph.weights(f"{layer.name}.weights", values, scale)]
    if layer.bias is not None:
        inputs.append(graph.weights(f"{layer.name}.bias", layer.bias, scale * source.scale))
    return inputs


def _write_resize(graph: QdqGraph, layer: Upsample | ResizeBilinear, source: str, name: str) -> None:
    if isinstance(layer, Upsample):
        scales = graph.constant(f"{name}.scales", np.array([1, 1, *layer.factor], np.float32))
        graph.node(
            "Resize",
            [source, "", scales],
            name,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        return
    height, width, channels = layer.output.shape
    sizes = graph.constant(f"{name}.sizes", np.array([1, channels, height, width], np.int64))
    places = layer.coordinates
    graph.node("Resize", [source, "", "", sizes], name, mode="linear", coordinate_transformation_mode=places)


def _write_pad(graph: QdqGraph, layer: Pad, source: str, name: str, channels: int) -> None:
    if layer.spacing != (1, 1):
        ones = graph.constant(f"{name}.one", np.ones((channels, 1, 1, 1), np.float32))
        spread, strides = f"{name}.spread", list(layer.spacing)
        source = graph.node("ConvTranspose", [source, ones], spread, group=channels, strides=strides)
    top, left, bottom, right = layer.padding
    amounts = graph.constant(f"{name}.pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
    graph.node("Pad", [source, amounts], name)


def _write_lookup(graph: QdqGraph, layer: Lookup, source: TensorType) -> None:
    """A function that ONNX has, where the table is exactly that; else a Gather from the table."""
    named = function_of(layer, source)
    if named is not None:
        write_function(graph, named, graph.dequantized[layer.input], layer.name)
        graph.quantized(layer.name, layer.output)
        return
    table = layer.entries
    rows = np.arange(len(table), dtype=np.int32) * 256 + (128 if source.signed else 0)
    offset = graph.constant(f"{layer.name}.offset", rows.reshape(1, -1, 1, 1))
    integers = graph.integers_of(layer.input)
    number = graph.node("Cast", [integers], f"{layer.name}.number", to=6)
    place = graph.node("Add", [number, offset], f"{layer.name}.place")
    entries = graph.constant(f"{layer.name}.table", table.ravel())
    graph.real(graph.node("Gather", [entries, place], f"{layer.name}.integers"), layer.name, layer.output)


def _candidates() -> Iterator[NamedFunction]:
    for function in ("sigmoid", "silu", "tanh", "hard_swish", "softplus"):
        yield NamedFunction(function)
    yield NamedFunction("hard_sigmoid", 1 / 6, 0.5)
    yield NamedFunction("hard_sigmoid", 0.2, 0.5)
    for slope in (0.01, 0.1, 0.2, 0.3):
        yield NamedFunction("leaky_relu", slope)
    yield NamedFunction("elu", 1.0)


def function_of(layer: Lookup, source: TensorType) -> NamedFunction | None:
    """The function of which the table holds the nearest integers, all of them."""
    table = layer.entries
    if len(table) != 1:
        return None
    real = (source.scale * (np.arange(256) - (128 if source.signed else 0) - source.zero_point)).astype(np.float32)
    return next((named for named in _candidates() if (_table(named, real, layer.output) == table[0]).all()), None)


def _table(named: NamedFunction, real: NDArray[np.float32], out: TensorType) -> NDArray[np.float64]:
    values = evaluate(named.function, real, named.alpha, named.beta).astype(np.float64)
    entries: NDArray[np.float64] = np.clip(np.floor(values / out.scale + 0.5) + out.zero_point, out.lo, out.hi)
    return entries


def write_function(graph: QdqGraph, named: NamedFunction, source: str, name: str) -> None:
    """The function of a real tensor, under a name."""
    match named.function:
        case "silu":
            gate = graph.node("Sigmoid", [source], f"{name}.gate")
            graph.node("Mul", [source, gate], name)
        case "leaky_relu":
            graph.node("LeakyRelu", [source], name, alpha=named.alpha)
        case "elu":
            graph.node("Elu", [source], name, alpha=named.alpha)
        case "hard_sigmoid":
            graph.node("HardSigmoid", [source], name, alpha=named.alpha, beta=named.beta)
        case _:
            graph.node(_PLAIN[named.function], [source], name)
