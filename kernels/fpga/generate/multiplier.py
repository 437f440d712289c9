"""The convolution engine with multipliers in place of shifts: the baseline that power-of-two weights are compared with.

Line buffer, order of steps, adder tree and registers are those of `engines.conv_engine`; weights, elements, and sums
are wide fixed-point integers. No network is generated from it.
"""

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.engines import CLAMP, Engine, Folding, Memory, Range
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType


def multiplier_engine(
    weights: NDArray[np.int64],
    bias: NDArray[np.int64],
    size: tuple[int, int],
    shift: int,
    folding: Folding,
    *,
    bits: int = 32,
    in_bits: int = 32,
    weight_style: str = "block",
    every: int = 2,
) -> Engine:
    """A convolution that keeps the size: y = clamp((sum + bias + half) >> shift, 0, 2^(bits-1)-1).

    weights: [O, K, K, C] of `bits` bits; bias: [O], added to the exact sum of products; size: height and width; half:
    2^(shift-1); in_bits: of an element of the input, signed; weight_style: "block" or "logic". Elements of the output
    have `bits` bits.
    """
    outputs, kernel, _, channels = weights.shape
    height, width = size
    groups, folds = outputs // folding.out_lanes, folding.folds
    per_fold = channels // folds
    arranged = weights.reshape(groups, folding.out_lanes, kernel, kernel, folds, per_fold).transpose(0, 4, 1, 2, 3, 5)
    steps = groups * folds
    greatest = kernel * kernel * channels << (in_bits + bits - 2)
    total = greatest + int(np.abs(bias).max()) + (1 << shift)
    accumulator = Range(-total, total).bits
    start = bias + ((1 << shift) >> 1)
    parameters: dict[str, int | str] = {
        "H": height,
        "W": width,
        "C": channels,
        "K": kernel,
        "STRIDE": 1,
        "TOP": kernel // 2,
        "LEFT": kernel // 2,
        "OUT_H": height,
        "OUT_W": width,
        "OUT_C": outputs,
        "IN_LANES": folding.in_lanes,
        "OUT_LANES": folding.out_lanes,
        "FOLDS": folds,
        "IN": in_bits,
        "BITS": in_bits,
        "MULTIPLY": 1,
        "CODE": bits,
        "WIDTH": accumulator,
        "MODE": CLAMP,
        "SHIFT": shift,
        "LO": 0,
        "HI": (1 << bits - 1) - 1,
        "OUT": bits,
        "EVERY": every,
        "WEIGHT_STYLE": weight_style,
    }
    memories = (
        Memory("weights", arranged[0, 0].size * bits, _words(arranged.reshape(steps, -1), bits)),
        Memory("start", folding.out_lanes * accumulator, _words(start.reshape(groups, -1), accumulator)),
    )
    out = TensorType((height, width, outputs), bits=32)
    clocks = max(height * width * channels // folding.in_lanes, height * width * steps)
    return Engine("multiplier", "edgemeta_conv", (INPUT,), parameters, memories, out, Range(0, 2**31 - 1), clocks)


def _words(rows: NDArray[np.int64], bits: int) -> list[int]:
    """Rows of integers as one unsigned integer each, `bits` per element, the first lowest."""
    mask = (1 << bits) - 1
    return [sum((value & mask) << place * bits for place, value in enumerate(row)) for row in rows.tolist()]
