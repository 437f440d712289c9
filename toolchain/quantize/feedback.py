"""Rounding of weights with error feedback: later weights compensate the rounding errors of earlier ones.

For a layer y = W x the rounding error is (W - Q) H (W - Q)^T with H the second moments of x. Weights are rounded one
input at a time; the part of the error that later inputs can cancel is subtracted from their weights before these are
rounded (Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ", 2022; Hassibi and Stork, "Optimal Brain Surgeon", 1993).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Float32, Weighted, Windowed
from edgemeta.model.layers.types import Tensor
from edgemeta.toolchain.quantize.blocks import Block

_DAMPING = 0.01
_MOST_MOMENTS = 1 << 24
"""Numbers of all moments together: 128 MiB."""

_COLUMNS = 32
"""Inputs that are rounded one by one before their errors reach all later inputs in one product."""

Moments = NDArray[np.float64]
"""Second moments [groups, K, K] of a layer's inputs, K in the order of its weights [KH, KW, I] flattened."""
Feedback = NDArray[np.float64]
"""Of a layer [groups, K, K], upper triangular: row j says how the inputs after j compensate an error at j."""


def affordable(blocks: Sequence[Block]) -> frozenset[str]:
    """Blocks with weights whose moments fit into `_MOST_MOMENTS` numbers together, the smallest first."""
    left, chosen = _MOST_MOMENTS, []
    sizes = [(_size(block.core), block.name) for block in blocks if isinstance(block.core, Weighted)]
    for size, name in sorted(sizes):
        if size > left:
            break
        left -= size
        chosen.append(name)
    return frozenset(chosen)


def _size(core: Weighted[Float32]) -> int:
    return core.groups * math.prod(core.weights.shape[1:]) ** 2


def chosen_of(count: int, most: int) -> slice:
    """About `most` of so many positions, chosen evenly."""
    return slice(0, count, max(1, count // most) | 1)


def windows_of(core: Weighted[Float32], x: Tensor, most: int, fill: int = 0) -> Tensor:
    """Input rows of the weights, [groups, about `most` rows, K], chosen evenly from all positions of x [N, H, W, C].

    fill: what stands in the padding.
    """
    if not isinstance(core, Windowed):
        return x.reshape(1, len(x), -1)
    if core.weights.shape[1:3] == (1, 1) and core.groups == 1 and not any(core.padding):
        every = x[:, :: core.stride[0], :: core.stride[1]].reshape(-1, x.shape[3])
        return every[chosen_of(len(every), most)][np.newaxis]
    view = core.windows(x, fill)
    places = view.shape[:3]
    count = math.prod(places)
    chosen = np.arange(count)[chosen_of(count, most)]
    picked = view[np.unravel_index(chosen, places)]  # [rows, KH, KW, C]
    grouped = picked.reshape(*picked.shape[:3], core.groups, -1).transpose(3, 0, 1, 2, 4)
    return grouped.reshape(core.groups, len(chosen), -1)


_LEAST_LEVEL = 2.0**-80
"""Of a mean square: products of lesser numbers are too small for float32, in which moments are added."""


def feedback_of(moments: Moments) -> Feedback:
    """The factors of rounding with error feedback: inverse(damped moments) = U^T U for each group."""
    unit = np.eye(moments.shape[1])
    level: NDArray[np.float64] = np.trace(moments, axis1=1, axis2=2)[:, np.newaxis, np.newaxis] / len(unit)
    damped: Moments = np.where(level > _LEAST_LEVEL, moments + unit * (_DAMPING * level), unit)
    factors: Feedback = np.linalg.cholesky(np.linalg.inv(damped)).transpose(0, 2, 1)
    return factors


def round_with_feedback(weight: NDArray[np.float64], scale: NDArray[np.float64], factors: Feedback) -> NDArray[np.int8]:
    """Integers -127 .. 127 for weight [O, K] (O a multiple of the groups) with scale [O] or [1]: int8 [O, K].

    Of all groups at once; the errors of all inputs before a piece of the inputs come in one product.
    """
    rows, k = weight.shape
    grouped = weight.reshape(len(factors), -1, k).transpose(0, 2, 1)  # [groups, K, O / groups]
    step = np.broadcast_to(scale, rows).reshape(len(factors), -1)
    out, errors = np.empty(grouped.shape, np.int8), np.empty(grouped.shape)
    for start in range(0, k, _COLUMNS):
        stop = min(start + _COLUMNS, k)
        left = grouped[:, start:stop] - factors[:, :start, start:stop].transpose(0, 2, 1) @ errors[:, :start]
        for j in range(start, stop):
            value = left[:, j - start]
            integer = np.clip(np.floor(value / step + 0.5), -127, 127)
            out[:, j] = integer
            errors[:, j] = (value - integer * step) / factors[:, j, j, np.newaxis]
            left[:, j + 1 - start :] -= factors[:, j, j + 1 : stop, np.newaxis] * errors[:, j, np.newaxis]
    return np.ascontiguousarray(out.transpose(0, 2, 1)).reshape(rows, k)
