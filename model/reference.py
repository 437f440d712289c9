"""The reference interpreter: every layer in NumPy, every integer exact. Backends equal it bit for bit.

Tensors are [N, H, W, C]. Sums of products are computed as float64 matrix products, which is exact: `prove` has shown
that every accumulator, and every partial sum without the bias, is an integer far below 2**53 in magnitude.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from edgemeta.model.bilinear import BILINEAR_BITS, BilinearAxis, bilinear_axis
from edgemeta.model.fixedpoint import rounding_shift, saturate
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Dense,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Padding,
    Pair,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    ShiftTable,
    Slice,
    TensorType,
    Upsample,
    inputs_of,
)
from edgemeta.model.prove_shapes import covered

Tensor = NDArray[Any]

_BLOCK_ELEMENTS = 1 << 18
"""Greatest number of float64 elements that one matrix product reads: about the cache of one core."""


def run(model: Model, batch: Tensor) -> tuple[Tensor, ...]:
    """The outputs, each [N, H, W, C] of its type, of a batch [N, H, W, C] of the model input's dtype.

    Raises ValueError if the batch has another shape or dtype. The model must have been proved (`prove.prove`).
    """
    chunks = [[tensors[name] for name in model.outputs] for tensors in _traces(model, batch)]
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def trace(model: Model, batch: Tensor) -> dict[str, Tensor]:
    """All tensors of the network by name, including "input", each [N, H, W, C]. Raises as `run`."""
    chunks = list(_traces(model, batch))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _traces(model: Model, batch: Tensor) -> Iterator[dict[str, Tensor]]:
    """All tensors, for a few images at a time, so that memory does not grow with the batch."""
    expected = model.input
    if batch.dtype != expected.dtype or batch.shape[1:] != expected.shape or len(batch) == 0:
        raise ValueError(
            f"batch is {batch.dtype} {list(batch.shape)}, expected {np.dtype(expected.dtype)} "
            f"[N, {', '.join(map(str, expected.shape))}] with N >= 1"
        )
    types = {INPUT: model.input} | {layer.name: layer.output for layer in model.layers}
    largest = max(int(np.prod(tensor_type.shape)) for tensor_type in types.values())
    images = max(1, _BLOCK_ELEMENTS // largest)
    for start in range(0, len(batch), images):
        tensors = {INPUT: batch[start : start + images]}
        for layer in model.layers:
            tensors[layer.name] = _run_layer(layer, tensors, types)
        yield tensors


def _run_layer(layer: Layer, tensors: dict[str, Tensor], types: dict[str, TensorType]) -> Tensor:
    names = inputs_of(layer)
    values = [tensors[name] for name in names]
    x, zero_point = values[0], types[names[0]].zero_point
    match layer:
        case Conv():
            accumulators = _convolve(_centred(x, zero_point), layer)
            return _requantized(accumulators, layer.requantize, layer.output)
        case Dense():
            columns = _centred(x, zero_point).reshape(len(x), 1, 1, -1)
            accumulators = _exact_product(columns, layer.weights.decode().T) + _bias(layer)
            return _requantized(accumulators, layer.requantize, layer.output)
        case Add():
            return _add(layer, [_centred(tensors[name], types[name].zero_point) for name in names])
        case Clamp():
            return saturate(x, layer.lo, layer.hi, layer.output.dtype)
        case Rescale():
            return _requantized(_centred(x, zero_point), layer.requantize, layer.output)
        case MaxPool():
            least = types[names[0]].lo
            greatest: Tensor = _windows(x, layer.kernel, layer.stride, layer.padding, least).max(axis=(3, 4))
            return greatest
        case AveragePool():
            windows = _windows(_centred(x, zero_point), layer.kernel, layer.stride, layer.padding, 0)
            return _requantized(windows.sum(axis=(3, 4)), layer.requantize, layer.output)
        case Concat():
            return np.concatenate(values, axis=3)
        case Upsample():
            return x.repeat(layer.factor[0], axis=1).repeat(layer.factor[1], axis=2)
        case Lookup():
            return _looked_up(layer.table, x.astype(np.int64) - np.iinfo(x.dtype).min)
        case Product():
            factors = _centred(x, zero_point) * _centred(values[1], types[names[1]].zero_point)
            return _requantized(factors, layer.requantize, layer.output)
        case Pad():
            return _padded(x, layer)
        case Slice():
            return x[(slice(None), *map(slice, layer.start, layer.stop, layer.step))]
        case ChannelShuffle():
            order = np.arange(x.shape[3]).reshape(layer.groups, -1).T.ravel()
            return x[..., order]
        case ResizeBilinear():
            sums = x.astype(np.int64)
            for axis in (1, 2):
                neighbours = bilinear_axis(x.shape[axis], layer.output.shape[axis - 1], layer.coordinates)
                sums = _between(sums, neighbours, axis)
            return rounding_shift(sums, 2 * BILINEAR_BITS).astype(x.dtype)


def _centred(x: Tensor, zero_point: int) -> NDArray[np.int64]:
    """Subtract the zero point, in int64."""
    return x.astype(np.int64) - zero_point


def _bias(layer: Conv | Dense) -> NDArray[np.int64]:
    """Bias of every output channel in int64, zeros without a bias."""
    channels = layer.weights.shape[0]
    return np.zeros(channels, np.int64) if layer.bias is None else layer.bias.astype(np.int64)


def _exact_product(columns: Tensor, weights: Tensor) -> NDArray[np.int64]:
    """Integer matrix product [..., M, K] @ [..., K, O] in int64, computed in float64 (see the module's docstring)."""
    product = columns.astype(np.float64, copy=False) @ weights.astype(np.float64)
    return product.astype(np.int64)


def _convolve(x: NDArray[np.int64], layer: Conv) -> NDArray[np.int64]:
    """Accumulators [N, H', W', O] of centred input, as one matrix product per block of output rows."""
    weights, groups = layer.weights.decode(), layer.groups
    outputs, kernel_height, kernel_width, depth = weights.shape
    filters, taps = outputs // groups, kernel_height * kernel_width * depth
    matrices = weights.reshape(groups, filters, taps).transpose(0, 2, 1)
    windows = _windows(x.astype(np.float64), covered(layer), layer.stride, layer.padding, 0)
    windows = windows[:, :, :, :: layer.dilation[0], :: layer.dilation[1]]
    images, height, width = windows.shape[:3]
    grouped = windows.reshape(*windows.shape[:5], groups, depth).transpose(5, 0, 1, 2, 3, 4, 6)
    accumulators = np.empty((images, height, width, outputs), np.int64)
    rows = max(1, _BLOCK_ELEMENTS // (images * width * taps * groups))
    for top in range(0, height, rows):
        columns = grouped[:, :, top : top + rows].reshape(groups, -1, taps)
        sums = _exact_product(columns, matrices).reshape(groups, images, -1, width, filters)
        accumulators[:, top : top + rows] = sums.transpose(1, 2, 3, 0, 4).reshape(images, -1, width, outputs)
    return accumulators + _bias(layer)


def _windows(x: Tensor, kernel: Pair, stride: Pair, padding: Padding, fill: int) -> Tensor:
    """View [N, H', W', KH, KW, C] of the elements under the kernel at each position, padded with `fill`."""
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    windows = sliding_window_view(padded, kernel, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    return windows.transpose(0, 1, 2, 4, 5, 3)


def _looked_up(table: Tensor, columns: NDArray[np.int64]) -> Tensor:
    """Entries of a table [C, 256] or [1, 256] at columns [N, H, W, C]."""
    row = np.arange(columns.shape[3]) if len(table) > 1 else 0
    entries: Tensor = table.ravel().take(256 * row + columns)
    return entries


def _padded(x: Tensor, layer: Pad) -> Tensor:
    top, left, _, _ = layer.padding
    result = np.full((len(x), *layer.output.shape), layer.output.zero_point, x.dtype)
    inside_height, inside_width = ((x.shape[axis + 1] - 1) * layer.spacing[axis] + 1 for axis in (0, 1))
    inside = result[:, top : top + inside_height, left : left + inside_width]
    inside[:, :: layer.spacing[0], :: layer.spacing[1]] = x
    return result


def _between(x: NDArray[np.int64], axis: BilinearAxis, number: int) -> NDArray[np.int64]:
    """Weighted sum of the two elements that each output position lies between, along axis `number`."""
    shape = [1] * x.ndim
    shape[number] = -1
    upper = axis.weight.reshape(shape)
    one = 1 << BILINEAR_BITS
    return x.take(axis.lower, number) * (one - upper) + x.take(axis.upper, number) * upper


def _add(layer: Add, operands: list[NDArray[np.int64]]) -> Tensor:
    weighted = layer.multipliers[0] * operands[0] + layer.multipliers[1] * operands[1]
    rounded = rounding_shift(weighted, layer.shift) + layer.output.zero_point
    return saturate(rounded, layer.lo, layer.hi, layer.output.dtype)


def _requantized(accumulators: NDArray[np.int64], requantize: Requantize | None, output: TensorType) -> Tensor:
    """Accumulators [N, H, W, C] to the output type, per channel; without `requantize` they stay int32."""
    if requantize is None:
        return accumulators.astype(np.int32)
    if isinstance(requantize, ShiftTable):
        return _looked_up(requantize.table, np.clip(rounding_shift(accumulators, requantize.shift), -128, 127) + 128)
    rounded = rounding_shift(accumulators * requantize.multiplier.astype(np.int64), requantize.shift)
    return saturate(rounded + output.zero_point, requantize.lo, requantize.hi, output.dtype)
