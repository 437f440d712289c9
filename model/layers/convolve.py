"""Convolutions of float32 arrays in NumPy, of padded inputs."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgemeta.model.layers.types import Float32, Pair

_BLOCK = 1 << 22
"""Greatest number of float32 elements that one matrix product reads."""
_CACHED = 1 << 15
"""Sums of a depthwise convolution that are computed at a time: they stay in the cache from tap to tap."""


def convolve(x: Float32, weights: Float32, stride: Pair, dilation: Pair, groups: int) -> Float32:
    """Sums of products [N, H', W', O] of x [N, H, W, I], padded already, and weights [O, KH, KW, I / groups]."""
    outputs, height, width, depth = weights.shape
    reach = [(side - 1) * step + 1 for side, step in zip((height, width), dilation, strict=True)]
    view = sliding_window_view(x, reach, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    taps = view[..., :: dilation[0], :: dilation[1]].transpose(0, 1, 2, 4, 5, 3)  # [N, H', W', KH, KW, I]
    rows, columns = taps.shape[1:3]
    if groups == outputs == x.shape[3]:
        return _depthwise(x, weights, stride, dilation, (rows, columns))
    if (height, width, groups) == (1, 1, 1):
        product: Float32 = x[:, :: stride[0], :: stride[1]].reshape(-1, depth) @ weights.reshape(outputs, -1).T
        return product.reshape(len(x), rows, columns, outputs)
    sums = np.empty((len(x), rows, columns, outputs), np.float32)
    share, most = outputs // groups, max(1, _BLOCK // (len(x) * columns * height * width * depth))
    for g in range(groups):
        matrix = weights[g * share : (g + 1) * share].reshape(share, -1).T
        for top in range(0, rows, most):
            block = taps[:, top : top + most, ..., g * depth : (g + 1) * depth]
            product = block.reshape(-1, height * width * depth) @ matrix
            sums[:, top : top + most, :, g * share : (g + 1) * share] = product.reshape(*block.shape[:3], share)
    return sums


def _depthwise(x: Float32, weights: Float32, stride: Pair, dilation: Pair, size: Pair) -> Float32:
    """As `convolve` with a group for each channel; size: rows and columns of the result.

    Columns and channels are one axis, so that a product runs over all of a row.
    """
    (images, height, _, channels), (rows, columns) = x.shape, size
    width, some = columns * channels, max(1, _CACHED // (images * columns * channels))
    parts = []
    for column in range(weights.shape[2]):
        left = column * dilation[1]
        if stride[1] == 1:
            parts.append(x.reshape(images, height, -1)[:, :, left * channels : left * channels + width])
        else:
            part = x[:, :, left : left + (columns - 1) * stride[1] + 1 : stride[1]]
            parts.append(np.ascontiguousarray(part).reshape(images, height, width))
    wide = np.tile(weights[..., 0].transpose(1, 2, 0), columns)  # [KH, KW, columns * C]
    sums, products = np.empty((images, rows, width), np.float32), np.empty((images, some, width), np.float32)
    for first in range(0, rows, some):
        block = sums[:, first : first + some]
        block[...] = 0
        for row, column in np.ndindex(weights.shape[1:3]):
            top = first * stride[0] + row * dilation[0]
            taps = parts[column][:, top : top + (block.shape[1] - 1) * stride[0] + 1 : stride[0]]
            block += np.multiply(taps, wide[row, column], out=products[:, : block.shape[1]])
    return sums.reshape(images, rows, columns, channels)
