"""A network as one block of little-endian bytes, as `kernels/cpu/src/read_plan.cpp` reads and proves it.

    plan  = "EMPL" version type steps { step } outputs
    step  = name operator inputs type { field } [ 0 | 1 name operand other type { field } ] ( 0 | 1 name type table )

A plain number is an int32. An array is the number of its values, the bytes of each (1, 2 or 4), and the values: the
narrowest that hold all. A text is its number of bytes and UTF-8. A type is height, width, channels, 1 if signed, the
least and the greatest integer, and the zero point. Tensor 0 is the input and tensor i + 1 what step i leaves; inputs
and outputs are tensors by number. `_FIELDS` says which fields an operator has. After those of a convolution comes the
sum that follows it, if there is one: the convolution is its operand 0 or 1, another tensor the other one. Then comes
the table, or one for each channel, of all layers of one element that follow; its entries are less 128 if they are of an
unsigned tensor. A model always gives the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.lowering.fusion import Fusions, fuse
from edgemeta.kernels.lowering.gather import gather_of
from edgemeta.kernels.lowering.replacement import has_table, table_of_all, without_phases
from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, UnsupportedError
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Concat,
    Constant,
    Conv,
    Dense,
    Layer,
    Lookup,
    MatMul,
    MaxPool,
    Multiplier,
    Normalize,
    Padding,
    Pair,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    Shape,
    Softmax,
    TensorType,
)
from edgemeta.model.layers.bilinear import bilinear_axis
from edgemeta.model.weights import BinaryWeights

VERSION = 16
"""That of the library's interface, EM_ABI_VERSION, which changes with the bytes."""

OPERATORS = (
    *("conv", "sum", "rescale", "max_pool", "average_pool", "concat", "lookup", "product", "bilinear"),
    *("gather", "matmul", "softmax", "normalize", "constant"),
)
"""Operators by their number, as `Kind` in program.h."""

_INT32 = Struct("<i").pack
_RAW, _MULTIPLIER, _TABLE = 0, 1, 2
_NO_PADDING: Padding = (0, 0, 0, 0)
_ONES: Pair = (1, 1)

Fields: TypeAlias = Iterable[int | NDArray[Any]]
"""Numbers and arrays in their order."""


def plan_bytes(model: Model, form: int, forms: Mapping[str, int]) -> bytes:
    """The plan of a proved model. form: of convolutions, by its number; forms: another one by a layer's name.

    Raises UnsupportedError, which names the layer that has no operator.
    """
    model = without_phases(model)
    steps = fuse(model, _FUSIONS)
    numbers = {INPUT: 0} | {step.output.name: number for number, step in enumerate(steps, 1)}
    parts = [b"EMPL", packed((VERSION, *_type(model.input), len(steps)))]
    for step in steps:
        assert not isinstance(step, PoolDenseStep), "a pool is no step of the library's"
        parts += _step(step, model.types, numbers, forms.get(step.layers[0].name, form))
    return b"".join((*parts, packed([np.array([numbers[name] for name in model.outputs])])))


def _step(
    step: ConvStep | LayerStep, types: Mapping[str, TensorType], numbers: Mapping[str, int], form: int
) -> Iterator[bytes]:
    layer, named, after = step.layers[0], step.layers[:1], step.after
    source, output = types[layer.sources[0]], layer.output
    operator, fields = _FIELDS.get(type(layer), ("gather", _gather))
    values = fields(layer, source.shape, form)
    if has_table(layer, source):
        named, output, after = step.layers, step.output.output, ()
        operator, values = "lookup", (_table(named, source, output),)
    inputs = np.array([numbers[name] for name in layer.sources])
    yield _named(named) + packed((OPERATORS.index(operator), inputs, *_type(output), *values))
    if isinstance(step, ConvStep) and step.add is not None and step.residual is not None:
        operand, output = int(step.add.inputs[1] == layer.name), step.add.output
        sum_ = (operand, numbers[step.residual], *_type(output), *_sum(step.add))
        yield packed([1]) + _named([step.add]) + packed(sum_)
    elif operator == "conv":
        yield packed([0])
    if after:
        yield packed([1]) + _named(after) + packed((*_type(end := step.output.output), _table(after, output, end)))
    else:
        yield packed([0])


def _table(layers: Sequence[Layer], source: TensorType, output: TensorType) -> NDArray[np.int64]:
    return table_of_all(layers, source) - (0 if output.signed else 128)


def _named(layers: Sequence[Layer]) -> bytes:
    name = "+".join(layer.name for layer in layers).encode()
    return packed([len(name)]) + name


def unsupported(layer: Layer, source: Shape) -> str | None:
    """Reason why there is no operator for a layer whose first input has a shape, or None."""
    return None if type(layer.equivalent) in _FIELDS or gather_of(layer, source) is not None else _refusal(layer)


def _refusal(layer: Layer) -> str:
    return f"{type(layer).__name__} is not supported"


def packed(fields: Fields) -> bytes:
    """Fields as bytes: int32, and arrays of any shape, whose values fit int32."""
    return b"".join(_INT32(field) if isinstance(field, int) else _array(field) for field in fields)


def _array(values: NDArray[Any]) -> bytes:
    least, greatest = (int(values.min()), int(values.max())) if values.size else (0, 0)
    narrowest = next(kind for kind in (np.int8, np.int16, np.int32) if _holds(kind, least, greatest))
    stored = np.ascontiguousarray(values, np.dtype(narrowest).newbyteorder("<"))
    return packed((stored.size, stored.itemsize)) + stored.tobytes()


def _holds(kind: type[np.signedinteger[Any]], least: int, greatest: int) -> bool:
    return np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max


def _type(kind: TensorType) -> Fields:
    """Raw accumulators have the type of int8: nothing reads it."""
    least = -128 if kind.signed else 0
    return (*kind.shape, int(kind.signed), max(kind.lo, least), min(kind.hi, least + 255), kind.zero_point)


def _conv(layer: Conv, _: Shape, form: int) -> Fields:
    window = _window(layer.weights.shape[1:3], layer.stride, layer.padding, layer.dilation)
    return (*window, layer.groups, form, *_products(layer))


def _takes_sum(conv: Conv) -> bool:
    return conv.groups == 1 and conv.requantize is not None


def _dense(layer: Dense, source: Shape, form: int) -> Fields:
    """A convolution whose kernel is the whole map."""
    return (*_window(source[:2], _ONES, _NO_PADDING), 1, form, *_products(layer))


def _products(layer: Conv | Dense) -> Fields:
    """Binary bases as bits, 1 for +1 and 0 for -1, with their factors; other weights as they are."""
    weights: Any = layer.weights
    bias = np.empty(0, np.int32) if layer.bias is None else layer.bias
    if not isinstance(weights, BinaryWeights):
        decoded = weights if isinstance(weights, np.ndarray) else weights.decode()
        return (0, decoded, bias, *_requantize(layer.requantize, layer.output))
    bits = 1 << np.arange(len(weights.basis)).reshape(-1, *[1] * (weights.basis.ndim - 1))
    codes = ((weights.basis > 0) * bits).sum(axis=0)
    return (len(weights.basis), codes, weights.factors, bias, *_requantize(layer.requantize, layer.output))


def _pool(layer: MaxPool | AveragePool, source: Shape, *_: object) -> Fields:
    window = _window(layer.kernel, layer.stride, layer.padding)
    if isinstance(layer, MaxPool):
        return window
    return (*window, int(layer.inside), *layer.shares(source), *_requantize(layer.requantize, layer.output))


def _sum(layer: Add, *_: object) -> Fields:
    return (*layer.multipliers, layer.shift, layer.lo, layer.hi)


def _requantized(layer: Rescale | Product, *_: object) -> Fields:
    return _requantize(layer.requantize, layer.output)


def _bilinear(layer: ResizeBilinear, source: Shape, _: int) -> Fields:
    axes = [bilinear_axis(source[axis], layer.output.shape[axis], layer.coordinates) for axis in (0, 1)]
    return [values for axis in axes for values in (axis.lower, axis.upper, axis.weight)]


def _matmul(layer: MatMul, *_: object) -> Fields:
    return (layer.heads, int(layer.transposed), *_requantize(layer.requantize, layer.output))


def _softmax(layer: Softmax, *_: object) -> Fields:
    assert layer.exponentials is not None
    return layer.groups, layer.exponentials, layer.multiplier


def _normalize(layer: Normalize, *_: object) -> Fields:
    epsilon = divmod(layer.epsilon, 1 << 30)
    return (int(layer.whole), *epsilon, layer.factors, layer.bias, *_requantize(layer.requantize, layer.output))


def _gather(layer: Layer, source: Shape, _: int) -> Fields:
    gather = gather_of(layer, source)
    if gather is None:
        raise UnsupportedError(f"layer {layer.name!r}: {_refusal(layer)}")
    return gather.rows, gather.columns, gather.channels


def _window(kernel: tuple[int, ...], stride: Pair, padding: Padding, dilation: Pair = _ONES) -> tuple[int, ...]:
    return (*kernel, *stride, *padding, *dilation)


def _requantize(requantize: Requantize | None, output: TensorType) -> Fields:
    if requantize is None:
        return (_RAW,)
    channels = output.shape[2]
    shift = np.broadcast_to(requantize.shift, (channels,))
    if isinstance(requantize, Multiplier):
        multiplier = np.broadcast_to(requantize.multiplier, (channels,))
        return _MULTIPLIER, shift, multiplier, requantize.lo, requantize.hi
    return _TABLE, shift, np.broadcast_to(requantize.table, (channels, 256))


_FIELDS: Mapping[type[Layer], tuple[str, Callable[[Any, Shape, int], Fields]]] = {
    Conv: ("conv", _conv),
    Dense: ("conv", _dense),
    Add: ("sum", _sum),
    Clamp: ("lookup", lambda *_: ()),
    Lookup: ("lookup", lambda *_: ()),
    Rescale: ("rescale", _requantized),
    MaxPool: ("max_pool", _pool),
    AveragePool: ("average_pool", _pool),
    Concat: ("concat", lambda *_: ()),
    Constant: ("constant", lambda layer, *_: (layer.values,)),
    MatMul: ("matmul", _matmul),
    Softmax: ("softmax", _softmax),
    Normalize: ("normalize", _normalize),
    Product: ("product", _requantized),
    ResizeBilinear: ("bilinear", _bilinear),
}
"""Operator and fields of each layer, of its input's shape and its form; any other layer is a gather.

A layer that is a table (`has_table`) is a lookup.
"""

_FUSIONS = Fusions(
    lambda layer, _: ConvStep(layer) if isinstance(layer, Conv) and _takes_sum(layer) else LayerStep(layer),
    lambda step, after: not isinstance(step.layers[0], Concat) and has_table(after, step.output.output),
)
