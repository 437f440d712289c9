"""A second definition of every layer, written to be unlike the reference: one output position and one tap at a time.

int64 throughout, no float; rounding takes the last bit shifted out instead of adding a half; weights are decoded entry
by entry; padding is never made, its taps are left out.
"""

from collections.abc import Iterator
from math import floor, isqrt, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import (
    Add,
    Affine,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Constant,
    Conv,
    Dense,
    DepthToSpace,
    Layer,
    Lookup,
    MatMul,
    MaxPool,
    Multiplier,
    Normalize,
    Pad,
    Padding,
    Pair,
    Product,
    Rearrange,
    Requantize,
    Rescale,
    ResizeBilinear,
    Slice,
    Softmax,
    Take,
    TensorType,
    Upsample,
)
from edgemeta.model.weights import BinaryWeights, PowerOfTwoWeights, Weights

Tensor = NDArray[Any]


def trace(model: Model, batch: Tensor) -> dict[str, Tensor]:
    tensors, types = {"input": batch}, {"input": model.input}
    for layer in model.layers:
        tensors[layer.name] = compute(layer, tensors, types).astype(layer.output.dtype)
        types[layer.name] = layer.output
    return tensors


def compute(layer: Layer, tensors: dict[str, Tensor], types: dict[str, TensorType]) -> Tensor:
    if isinstance(layer, Concat):
        return np.dstack([tensors[name].transpose(1, 2, 3, 0) for name in layer.inputs]).transpose(3, 0, 1, 2)
    if isinstance(layer, Add):
        (a, b), (ma, mb) = (real(name, tensors, types) for name in layer.inputs), layer.multipliers
        total = half_up(ma * a + mb * b, layer.shift) + layer.output.zero_point
        return np.minimum(np.maximum(total, layer.lo), layer.hi)
    if isinstance(layer, Product):
        a, b = (real(name, tensors, types) for name in layer.inputs)
        products = np.stack([a[:, i, j] * b[:, i % b.shape[1], j % b.shape[2]] for i, j in np.ndindex(a.shape[1:3])])
        return requantized(products.swapaxes(0, 1).reshape(a.shape), layer.requantize, layer.output)
    if isinstance(layer, MatMul):
        a, b = (real(name, tensors, types) for name in layer.inputs)
        return requantized(matmul(a, b, layer), layer.requantize, layer.output)
    x, centred = tensors[layer.input], real(layer.input, tensors, types)
    match layer:
        case Conv():
            return requantized(convolution(centred, layer), layer.requantize, layer.output)
        case Dense():
            rows = [
                (decoded(layer.weights)[o] * centred.reshape(len(x), -1)).sum(axis=1)
                for o in range(layer.output.shape[2])
            ]
            sums = np.stack(rows, axis=1)[:, None, None] + (0 if layer.bias is None else layer.bias.astype(np.int64))
            return requantized(sums, layer.requantize, layer.output)
        case Affine():
            factors, bias = (each.astype(np.int64) for each in (layer.factors, layer.bias))
            sums = np.stack([centred[..., c] * factors[c] + bias[c] for c in range(x.shape[3])], axis=3)
            return requantized(sums, layer.requantize, layer.output)
        case Clamp():
            return np.minimum(np.maximum(x, layer.lo), layer.hi)
        case Rescale():
            return requantized(centred, layer.requantize, layer.output)
        case MaxPool():
            result = np.full((len(x), *layer.output.shape), -1000)
            for i, j, _, _, y, xx in taps(x.shape, layer.output.shape, layer.kernel, layer.stride, layer.padding):
                result[:, i, j] = np.maximum(result[:, i, j], x[:, y, xx])
            return result
        case AveragePool():
            sums = np.zeros((len(x), *layer.output.shape), np.int64)
            read: list[list[set[int]]] = [[set() for _ in range(side)] for side in layer.output.shape[:2]]
            for i, j, _, _, y, xx in taps(x.shape, layer.output.shape, layer.kernel, layer.stride, layer.padding):
                sums[:, i, j] += centred[:, y, xx]
                read[0][i].add(y)
                read[1][j].add(xx)
            if layer.inside:
                whole = [lcm(*map(len, each)) for each in read]
                for i, j in np.ndindex(layer.output.shape[:2]):
                    sums[:, i, j] *= whole[0] // len(read[0][i]) * (whole[1] // len(read[1][j]))
            return requantized(sums, layer.requantize, layer.output)
        case Upsample():
            height, width, _ = layer.output.shape
            rows = np.arange(height) // layer.factor[0]
            return x[:, rows][:, :, np.arange(width) // layer.factor[1]]
        case Lookup():
            first = -128 if types[layer.input].signed else 0
            result, table = np.empty(x.shape, np.int64), layer.entries
            for n, i, j, c in np.ndindex(x.shape):
                result[n, i, j, c] = table[c % len(table)][int(x[n, i, j, c]) - first]
            return result
        case Pad():
            result = np.full((len(x), *layer.output.shape), layer.output.zero_point)
            for i, j in np.ndindex(x.shape[1:3]):
                result[:, layer.padding[0] + i * layer.spacing[0], layer.padding[1] + j * layer.spacing[1]] = x[:, i, j]
            return result
        case Slice():
            axes = [list(range(*span)) for span in zip(layer.start, layer.stop, layer.step, strict=True)]
            return x[np.ix_(range(len(x)), *axes)]
        case ChannelShuffle():
            per_group = x.shape[3] // layer.groups
            order = [group * per_group + i for i in range(per_group) for group in range(layer.groups)]
            return np.stack([x[..., c] for c in order], axis=3)
        case DepthToSpace():
            result, (_, _, channels) = np.empty((len(x), *layer.output.shape), np.int64), layer.output.shape
            for i, j, u, v in np.ndindex(*x.shape[1:3], layer.block, layer.block):
                first = (u * layer.block + v) * channels
                result[:, i * layer.block + u, j * layer.block + v] = x[:, i, j, first : first + channels]
            return result
        case Rearrange():
            return rearranged(x, layer)
        case Constant():
            return np.stack([layer.values] * len(x))
        case Softmax():
            return softmax(x.astype(np.int64), layer)
        case Normalize():
            return requantized(normalized(x.tolist(), layer), layer.requantize, layer.output)
        case Take():
            result = np.empty((len(x), *layer.output.shape), np.int64)
            for i, j, k in np.ndindex(*layer.output.shape):
                result[:, i, j, k] = x[:, layer.rows[i], layer.columns[j], layer.channels[k]]
            return result
        case ResizeBilinear():
            return bilinear(x.astype(np.int64), layer)


def matmul(a: NDArray[np.int64], b: NDArray[np.int64], layer: MatMul) -> NDArray[np.int64]:
    """One head and one result at a time, the positions of b row by row."""
    rows = [b[:, i, j] for i, j in np.ndindex(b.shape[1:3])]
    parts = []
    for head in range(layer.heads):
        width = a.shape[3] // layer.heads
        left = a[..., head * width : (head + 1) * width]
        if layer.transposed:
            others = [row[:, head * width : (head + 1) * width] for row in rows]
            parts += [(left * other[:, None, None]).sum(axis=3) for other in others]
            continue
        depth = b.shape[3] // layer.heads
        for d in range(head * depth, (head + 1) * depth):
            parts.append(sum(left[..., q] * row[:, d, None, None] for q, row in enumerate(rows)))
    return np.stack(parts, axis=3)


def rearranged(x: Tensor, layer: Rearrange) -> Tensor:
    """Element by element: where each place of the split input, read in the new order, lies."""
    flat, order = x.reshape(len(x), -1), layer.order
    places = {tuple(place[axis] for axis in order): number for number, place in enumerate(np.ndindex(*layer.sides))}
    return flat[:, [places[place] for place in sorted(places)]].reshape(len(x), *layer.output.shape)


def softmax(x: NDArray[np.int64], layer: Softmax) -> Tensor:
    """In Python's integers: the nearest level is floor((2 e m / (2**8 s) + 1) / 2)."""
    result, (powers, size) = np.empty(x.shape, np.int64), (layer.exponentials, x.shape[3] // layer.groups)
    assert powers is not None
    for n, i, j, g in np.ndindex(*x.shape[:3], layer.groups):
        part = x[n, i, j, g * size : (g + 1) * size].tolist()
        each = [int(powers[max(part) - value]) for value in part]
        levels = [(2 * e * layer.multiplier // (sum(each) << 8) + 1) // 2 + layer.output.zero_point for e in each]
        result[n, i, j, g * size : (g + 1) * size] = [min(max(y, layer.output.lo), layer.output.hi) for y in levels]
    return result


def normalized(images: list[Any], layer: Normalize) -> NDArray[np.int64]:
    """In Python's integers, whose length tells the exponent, with `math.isqrt`."""
    result = np.empty((len(images), *layer.output.shape), np.int64)
    for n, image in enumerate(images):
        everything = [value for row in image for pixel in row for value in pixel]
        for i, j in np.ndindex(result.shape[1:3]):
            group = everything if layer.whole else image[i][j]
            count, total = len(group), sum(group)
            square = count * sum(value * value for value in group) - total * total + layer.epsilon
            half = (square.bit_length() - 1) // 2
            root = isqrt(2**62 // (square * 2**30 // 4**half))
            for c, value in enumerate(image[i][j]):
                normal = ((count * value - total) * root + 2 ** (half + 1)) // 2 ** (half + 2)
                result[n, i, j, c] = int(layer.bias[c]) + int(layer.factors[c]) * normal
    return result


def bilinear(x: NDArray[np.int64], layer: ResizeBilinear) -> Tensor:
    """One output element at a time, its place from float64: exact here, as sides are small and weights have 11 bits."""
    height, width, _ = layer.output.shape
    result = np.empty((len(x), *layer.output.shape), np.int64)
    for i, j in np.ndindex(height, width):
        (y, down), (z, right) = place(i, x.shape[1], height, layer), place(j, x.shape[2], width, layer)
        below, beside = min(y + 1, x.shape[1] - 1), min(z + 1, x.shape[2] - 1)
        left, up = 2048 - right, 2048 - down
        total = up * left * x[:, y, z] + up * right * x[:, y, beside]
        total += down * left * x[:, below, z] + down * right * x[:, below, beside]
        result[:, i, j] = half_up(total, 22)
    return result


def place(i: int, source: int, target: int, layer: ResizeBilinear) -> tuple[int, int]:
    """The lower neighbour and the upper one's weight, in 1/2048."""
    if layer.coordinates == "half_pixel":
        at = (i + 0.5) * source / target - 0.5
    elif layer.coordinates == "align_corners":
        at = i * (source - 1) / (target - 1) if target > 1 else 0.0
    else:
        at = i * source / target
    at = min(max(at, 0.0), source - 1.0)
    return floor(at), floor((at - floor(at)) * 2048 + 0.5)


def real(name: str, tensors: dict[str, Tensor], types: dict[str, TensorType]) -> NDArray[np.int64]:
    return tensors[name].astype(np.int64) - types[name].zero_point


def taps(
    source: tuple[int, ...],
    target: tuple[int, ...],
    kernel: Pair,
    stride: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Output row and column, kernel row and column, input row and column, for every tap that is not padding."""
    for i, j, u, v in np.ndindex(target[0], target[1], *kernel):
        y = i * stride[0] + u * dilation[0] - padding[0]
        x = j * stride[1] + v * dilation[1] - padding[1]
        if 0 <= y < source[1] and 0 <= x < source[2]:
            yield i, j, u, v, y, x


def convolution(x: NDArray[np.int64], layer: Conv) -> NDArray[np.int64]:
    weights = decoded(layer.weights)
    outputs, kernel_height, kernel_width, depth = weights.shape
    sums = np.zeros((len(x), *layer.output.shape), np.int64)
    if layer.bias is not None:
        sums += layer.bias
    filters = outputs // layer.groups
    for i, j, u, v, y, xx in taps(
        x.shape, layer.output.shape, (kernel_height, kernel_width), layer.stride, layer.padding, layer.dilation
    ):
        pixel = x[:, y, xx].reshape(len(x), layer.groups, 1, depth)
        products = pixel * weights[:, u, v].reshape(layer.groups, filters, depth)
        sums[:, i, j] += products.sum(axis=3).reshape(len(x), outputs)
    return sums


def decoded(weights: Weights) -> NDArray[np.int64]:
    if isinstance(weights, PowerOfTwoWeights):
        half = 2 ** (weights.bits - 1)
        meaning = {0: 0} | {m: 2 ** (m - 1) for m in range(1, half // 2 + 1)}
        meaning |= {half + m: -value for m, value in meaning.items() if m}
        return np.array([meaning[code] for code in weights.codes.ravel().tolist()], np.int64).reshape(weights.shape)
    if isinstance(weights, BinaryWeights):
        total = np.zeros(weights.shape, np.int64)
        for b, o in np.ndindex(weights.factors.shape[::-1]):
            total[o] += int(weights.factors[o, b]) * weights.basis[b, o].astype(np.int64)
        return total
    return weights.values.astype(np.int64)


def half_up(value: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    return value if shift == 0 else (value >> shift) + (value >> (shift - 1) & 1)


def requantized(sums: NDArray[np.int64], requantize: Requantize | None, output: TensorType) -> Tensor:
    if requantize is None:
        return sums
    result = np.empty_like(sums)
    for c in range(sums.shape[3]):
        shift = int(requantize.shift[c % len(requantize.shift)])
        if isinstance(requantize, Multiplier):
            scaled = half_up(sums[..., c] * int(requantize.multiplier[c % len(requantize.multiplier)]), shift)
            result[..., c] = np.minimum(np.maximum(scaled + output.zero_point, requantize.lo), requantize.hi)
        else:
            index = np.minimum(np.maximum(half_up(sums[..., c], shift), -128), 127)
            result[..., c] = requantize.table[c % len(requantize.table)].take(index + 128)
    return result
