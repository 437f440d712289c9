"""Convolutions of float32 arrays in NumPy, of padded inputs."""

import numpy as np

from edgemeta.model.layers.types import Float32, Pair

_BLOCK = 1 << 22
"""Greatest number of float32 elements that one matrix product reads."""


def convolve(x: Float32, weights: Float32, stride: Pair, dilation: Pair, groups: int) -> Float32:
    """Sums of products [N, H', W', O] of x [N, H, W, I], padded already, and weights [O, KH, KW, I / groups]."""
    outputs, height, width, depth = weights.shape
    rows, columns = (
        (x.shape[axis + 1] - (weights.shape[axis + 1] - 1) * dilation[axis] - 1) // stride[axis] + 1 for axis in (0, 1)
    )

    def tap(part: Float32, row: int, column: int) -> Float32:
        """View [N, H', W', C] of the elements that one tap of the kernel reads."""
        top, left = row * dilation[0], column * dilation[1]
        bottom, right = top + (rows - 1) * stride[0] + 1, left + (columns - 1) * stride[1] + 1
        return part[:, top : bottom : stride[0], left : right : stride[1]]

    if groups == outputs == x.shape[3]:
        sums = np.zeros((len(x), rows, columns, outputs), np.float32)
        for row, column in np.ndindex(height, width):
            sums += tap(x, row, column) * weights[:, row, column, 0]
        return sums
    if (height, width, groups) == (1, 1, 1):
        picked = tap(x, 0, 0)
        product: Float32 = picked.reshape(-1, depth) @ weights.reshape(outputs, -1).T
        return product.reshape(*picked.shape[:3], outputs)
    sums = np.empty((len(x), rows, columns, outputs), np.float32)
    share, most = outputs // groups, max(1, _BLOCK // (len(x) * columns * height * width * depth))
    for g in range(groups):
        part = x[..., g * depth : (g + 1) * depth]
        matrix = weights[g * share : (g + 1) * share].reshape(share, -1).T
        taps = [tap(part, row, column) for row, column in np.ndindex(height, width)]
        for top in range(0, rows, most):
            block = np.stack([each[:, top : top + most] for each in taps], axis=3)  # [N, rows, W', taps, I / groups]
            product = block.reshape(-1, height * width * depth) @ matrix
            sums[:, top : top + most, :, g * share : (g + 1) * share] = product.reshape(*block.shape[:3], share)
    return sums
