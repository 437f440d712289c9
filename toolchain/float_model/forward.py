"""Forward pass of the float graph in NumPy and float32: for calibration, `eval` of a float model and as an oracle."""

from collections.abc import Iterator
from math import floor

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.layers.bilinear import bilinear_places
from edgemeta.model.preprocess import in_channels
from edgemeta.toolchain.float_model.functions import evaluate
from edgemeta.toolchain.float_model.graph import (
    INPUT,
    Add,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    Float32,
    FloatLayer,
    FloatModel,
    Function,
    GlobalAverage,
    Pad,
    Padding,
    Pool,
    Product,
    Relu,
    ResizeBilinear,
    Slice,
    Upsample,
    inputs_of,
)

_BLOCK = 1 << 22
"""Greatest number of float32 elements that one matrix product of a convolution reads."""


def network_input(model: FloatModel, pixels: NDArray[np.uint8]) -> Float32:
    """(pixel - mean) / scale as float32 [N, H, W, C], for pixels uint8 [N, H, W, 3] in R, G, B order."""
    return normalized(model, in_order(pixels, model.colour))


def normalized(model: FloatModel, pixels: NDArray[np.uint8]) -> Float32:
    """(pixel - mean) / scale as float32 [N, H, W, C], for pixels [N, H, W, C] in the network's own channels."""
    mean, scale = np.array(model.mean, np.float32), np.array(model.scale, np.float32)
    x: Float32 = (pixels.astype(np.float32) - mean) / scale
    return x


def in_order(pixels: NDArray[np.uint8], colour: str) -> NDArray[np.uint8]:
    """Pixels [N, H, W, 3] in R, G, B order, or gray [N, H, W, 1], as those of a network of this `colour`."""
    return in_channels(pixels[..., ::-1], colour)


def all_tensors(model: FloatModel, x: Float32) -> dict[str, Float32]:
    """Run the network on x [N, H, W, C] and return all tensors by name, including the input."""
    return dict(walk(model, x))


def walk(model: FloatModel, x: Float32) -> Iterator[tuple[str, Float32]]:
    """Run the network on x [N, H, W, C] and yield the name and value of every tensor, the input first.

    Only tensors that a later layer reads are kept, so memory is that of the widest place of the network.
    """
    last_use = {name: i for i, layer in enumerate(model.layers) for name in inputs_of(layer)}
    tensors = {INPUT: x}
    yield INPUT, x
    for i, layer in enumerate(model.layers):
        with np.errstate(over="ignore", invalid="ignore"):  # who reads the result says that it is infinite
            result = run_layer(layer, [tensors[n] for n in inputs_of(layer)])
        for name in set(inputs_of(layer)):
            if last_use[name] == i:
                del tensors[name]
        if layer.name in last_use:
            tensors[layer.name] = result
        yield layer.name, result


def outputs(model: FloatModel, x: Float32) -> tuple[Float32, ...]:
    """Run the network on x [N, H, W, C] and return its outputs, each [N, H, W, C]."""
    found = {name: tensor for name, tensor in walk(model, x) if name in model.outputs}
    return tuple(found[name] for name in model.outputs)


def logits(model: FloatModel, pixels: NDArray[np.uint8], batch: int = 250) -> Float32:
    """Logits float32 [N, labels] of pixels uint8 [N, H, W, 3], `batch` images at a time."""
    return np.concatenate(list(logits_in_batches(model, pixels, batch)))


def logits_in_batches(model: FloatModel, pixels: NDArray[np.uint8], batch: int = 250) -> Iterator[Float32]:
    """Yield the logits [<= batch, labels] of each batch; tensors are freed as soon as possible."""
    for start in range(0, len(pixels), batch):
        out = outputs(model, network_input(model, pixels[start : start + batch]))[0]
        yield out.reshape(len(out), -1)


def accuracy(
    model: FloatModel,
    pixels: NDArray[np.uint8],
    y: NDArray[np.integer],
    progress: Progress | None = None,
) -> float:
    """Share 0..1 of images whose greatest logit is that of the label (at a tie the lowest index counts).

    pixels: [N, H, W, 3] in R, G, B order. y: [N]. progress: called with (images done, total images) after every batch.
    """
    right = done = 0
    for out in logits_in_batches(model, pixels):
        right += int((out.argmax(1) == y[done : done + len(out)]).sum())
        done += len(out)
        if progress is not None:
            progress(done, len(y))
    return right / len(y)


def run_layer(layer: FloatLayer, inputs: list[Float32]) -> Float32:
    """Run one layer on its inputs, each float32 [N, H, W, C]."""
    x = inputs[0]
    if isinstance(layer, Conv):
        return _conv(layer, x)
    if isinstance(layer, BatchNorm):
        factor = layer.gamma / np.sqrt(layer.variance + np.float32(layer.eps))
        normed: Float32 = (x - layer.mean) * factor + layer.beta
        return normed
    if isinstance(layer, Relu):
        return np.clip(x, np.float32(0), None if layer.ceiling is None else np.float32(layer.ceiling))
    if isinstance(layer, Add):
        return inputs[0] + inputs[1]
    if isinstance(layer, Pool):
        return _pool(layer, x)
    if isinstance(layer, GlobalAverage):
        mean: Float32 = x.mean((1, 2), keepdims=True, dtype=np.float32)
        return mean
    if isinstance(layer, Dense):
        out: Float32 = x.reshape(len(x), -1) @ layer.weight.T
        if layer.bias is not None:
            out = out + layer.bias
        return out.reshape(len(x), 1, 1, -1)
    if isinstance(layer, Concat):
        return np.concatenate(inputs, axis=3)
    if isinstance(layer, Upsample):
        return x.repeat(layer.factor[0], 1).repeat(layer.factor[1], 2)
    return _elementwise_or_moved(layer, inputs)


def _elementwise_or_moved(
    layer: Function | Product | Pad | Slice | ChannelShuffle | ResizeBilinear, inputs: list[Float32]
) -> Float32:
    x = inputs[0]
    match layer:
        case Function():
            return evaluate(layer.function, x, layer.alpha, layer.beta)
        case Product():
            return x * inputs[1]
        case Pad():
            spaced_rows, spaced_columns = ((x.shape[i + 1] - 1) * layer.spacing[i] + 1 for i in (0, 1))
            spaced = np.zeros((len(x), spaced_rows, spaced_columns, x.shape[3]), np.float32)
            spaced[:, :: layer.spacing[0], :: layer.spacing[1]] = x
            return _padded(spaced, layer.padding, 0.0)
        case Slice():
            return x[(slice(None), *map(slice, layer.start, layer.stop, layer.step))]
        case ChannelShuffle():
            return x[..., np.arange(x.shape[3]).reshape(layer.groups, -1).T.ravel()]
        case ResizeBilinear():
            for axis in (1, 2):
                x = _resized(x, layer, axis)
            return x


def _resized(x: Float32, layer: ResizeBilinear, axis: int) -> Float32:
    """One axis of a bilinear resize, in float32, with the exact places."""
    shape = [1] * x.ndim
    shape[axis] = -1
    neighbours = bilinear_places(x.shape[axis], layer.size[axis - 1], layer.coordinates)
    lower = np.array([floor(place) for place in neighbours])
    upper = np.minimum(lower + 1, x.shape[axis] - 1)
    share = np.array([float(place - floor(place)) for place in neighbours], np.float32).reshape(shape)
    between: Float32 = x.take(lower, axis) * (1 - share) + x.take(upper, axis) * share
    return between


def _padded(x: Float32, padding: Padding, value: float) -> Float32:
    if not any(padding):
        return x
    top, left, bottom, right = padding
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _conv(layer: Conv, x: Float32) -> Float32:
    out_channels, kh, kw, per_group = layer.weight.shape
    padded = _padded(x, layer.padding, 0.0)
    if layer.groups == out_channels == x.shape[3]:
        out = _depthwise(layer, padded)
    elif (kh, kw, layer.groups) == (1, 1, 1):
        picked = padded[:, :: layer.stride[0], :: layer.stride[1]]
        product = picked.reshape(-1, per_group) @ layer.weight.reshape(out_channels, -1).T
        out = product.reshape(*picked.shape[:3], out_channels)
    else:
        out = _grouped(layer, padded)
    if layer.bias is not None:
        out += layer.bias
    return out


def _tap(layer: Conv, padded: Float32, place: tuple[int, int], size: tuple[int, int]) -> Float32:
    """View [N, H', W', C] of the elements that one tap of the kernel reads, for H', W' = size."""
    top, left = (place[axis] * layer.dilation[axis] for axis in (0, 1))
    bottom, right = top + (size[0] - 1) * layer.stride[0] + 1, left + (size[1] - 1) * layer.stride[1] + 1
    return padded[:, top : bottom : layer.stride[0], left : right : layer.stride[1]]


def _output_size(layer: Conv, padded: Float32) -> tuple[int, int]:
    rows, columns = (
        (padded.shape[axis + 1] - (layer.weight.shape[axis + 1] - 1) * layer.dilation[axis] - 1) // layer.stride[axis]
        + 1
        for axis in (0, 1)
    )
    return rows, columns


def _depthwise(layer: Conv, padded: Float32) -> Float32:
    """One filter per channel, tap by tap."""
    size = _output_size(layer, padded)
    out = np.zeros((len(padded), *size, padded.shape[3]), np.float32)
    for place in np.ndindex(layer.weight.shape[1:3]):
        out += _tap(layer, padded, place, size) * layer.weight[:, place[0], place[1], 0]
    return out


def _grouped(layer: Conv, padded: Float32) -> Float32:
    """One matrix product for each group and each block of output rows; a block reads about `_BLOCK` elements."""
    out_channels, kh, kw, per_group = layer.weight.shape
    size, share, n = _output_size(layer, padded), out_channels // layer.groups, len(padded)
    out = np.empty((n, *size, out_channels), np.float32)
    rows = max(1, _BLOCK // (n * size[1] * kh * kw * per_group))
    for g in range(layer.groups):
        part = padded[..., g * per_group : (g + 1) * per_group]
        weight = layer.weight[g * share : (g + 1) * share].reshape(share, -1).T
        taps = [_tap(layer, part, place, size) for place in np.ndindex(kh, kw)]
        for top in range(0, size[0], rows):
            columns = np.stack([tap[:, top : top + rows] for tap in taps], axis=3)  # [N, rows, W', taps, I]
            product = columns.reshape(-1, kh * kw * per_group) @ weight
            out[:, top : top + rows, :, g * share : (g + 1) * share] = product.reshape(*columns.shape[:3], share)
    return out


def _pool(layer: Pool, x: Float32) -> Float32:
    value = -np.inf if layer.kind == "max" else 0.0
    windows = sliding_window_view(_padded(x, layer.padding, value), layer.kernel, axis=(1, 2))
    windows = windows[:, :: layer.stride[0], :: layer.stride[1]]
    pooled: Float32 = windows.max((4, 5)) if layer.kind == "max" else windows.mean((4, 5), dtype=np.float32)
    return pooled
