"""Rounding of weights with error feedback: later weights compensate the rounding errors of earlier ones.

For a layer y = W x the rounding error is (W - Q) H (W - Q)^T with H the second moments of x. Weights are rounded one
input at a time; the part of the error that later inputs can cancel is subtracted from their weights before these are
rounded (Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ", 2022; Hassibi and Stork, "Optimal Brain Surgeon", 1993).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from edgemeta.toolchain.float_model.forward import all_tensors, network_input
from edgemeta.toolchain.float_model.graph import Conv, Dense, Float32, FloatModel
from edgemeta.toolchain.quantize.blocks import Block

_ROWS = 40_000
_DAMPING = 0.01

Moments = NDArray[np.float64]
"""Second moments [groups, K, K] of a layer's inputs, K in the order of its weights [KH, KW, I] flattened."""


def second_moments(model: FloatModel, blocks: Sequence[Block], pixels: NDArray[np.uint8]) -> Mapping[str, Moments]:
    """Measure the moments of every Conv and Dense block on pixels uint8 [N, H, W, 3]; about 40,000 windows for each."""
    tensors = all_tensors(model, network_input(model, pixels))
    made = {b.name: b.after for b in blocks} | {"input": "input"}
    moments: dict[str, Moments] = {}
    for block in blocks:
        core = block.core
        if isinstance(core, Dense):
            flat = tensors[made[core.input]].reshape(1, len(pixels), -1)
            moments[core.name] = _moment(flat)
        elif isinstance(core, Conv):
            moments[core.name] = _moment(_windows(core, tensors[made[core.input]]))
    return moments


def _windows(conv: Conv, x: Float32) -> Float32:
    """Input rows of the weights, [groups, rows, K], chosen evenly from all positions of all images."""
    _, kh, kw, per_group = conv.weight.shape
    top, left, bottom, right = conv.padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    down, right = conv.dilation
    view = sliding_window_view(padded, ((kh - 1) * down + 1, (kw - 1) * right + 1), axis=(1, 2))
    view = view[:, :: conv.stride[0], :: conv.stride[1], :, ::down, ::right]
    n, rows, columns = view.shape[:3]
    chosen = np.arange(0, n * rows * columns, max(1, n * rows * columns // _ROWS) | 1)
    picked = view[np.unravel_index(chosen, (n, rows, columns))]  # [rows, C, KH, KW]
    grouped = picked.reshape(len(chosen), conv.groups, per_group, kh, kw).transpose(1, 0, 3, 4, 2)
    return grouped.reshape(conv.groups, len(chosen), -1)


def _moment(rows: Float32) -> Moments:
    product = np.matmul(rows.transpose(0, 2, 1), rows).astype(np.float64)
    moment: Moments = product / rows.shape[1]
    return moment


def round_with_feedback(weight: NDArray[np.float64], scale: NDArray[np.float64], moments: Moments) -> NDArray[np.int8]:
    """Integers -127 .. 127 for weight [O, K] (O a multiple of the groups) with scale [O] or [1]: int8 [O, K]."""
    groups, k = moments.shape[0], moments.shape[1]
    share = len(weight) // groups
    scales = np.broadcast_to(scale, (len(weight),))
    out = np.empty(weight.shape, np.int8)
    for g in range(groups):
        rows = slice(g * share, (g + 1) * share)
        level = float(np.trace(moments[g])) / k
        damped = moments[g] + np.eye(k) * (_DAMPING * level if level > 0 else 1.0)
        # upper triangular, inverse(damped) = U^T U; row j: how the inputs after j compensate an error at j
        upper = np.linalg.cholesky(np.linalg.inv(damped)).T
        left, step = weight[rows].copy(), scales[rows]
        for j in range(k):
            integer = np.clip(np.floor(left[:, j] / step + 0.5), -127, 127)
            out[rows, j] = integer
            error = (left[:, j] - integer * step) / upper[j, j]
            left[:, j + 1 :] -= error[:, None] * upper[j, j + 1 :]
    return out
