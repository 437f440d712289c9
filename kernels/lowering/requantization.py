"""Requantization and residual addition of a step as plain integers, before a device's code is chosen.

Bounds of accumulators, clamps folded into the requantization before them, the step function of a multiplier, the line
that equals a table, and the constants of an addition. `line` proves that float32 lines equal these integers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.lowering.line import MAGIC, Line, StepFunction, find_line, value_at
from edgemeta.model.fixedpoint import INT32_MAX, INT32_MIN, saturate
from edgemeta.model.layers import Add, Clamp, Conv, Dense, Multiplier, Requantize, ShiftTable, TensorType


@dataclass(frozen=True, eq=False)
class Accumulators:
    """Start values and bounds of a layer's accumulators.

    start: int64 [C], the bias minus zero point times weights, so that a kernel sums w * x. least, greatest: int64 [C],
    bounds of the complete accumulator for any input (model/layers/bounds.py).
    """

    start: NDArray[np.int64]
    least: NDArray[np.int64]
    greatest: NDArray[np.int64]


def product_accumulators(layer: Conv | Dense, source: TensorType) -> Accumulators:
    """Accumulators of a convolution or dense layer with input of type `source`."""
    weights = layer.weights.decode().reshape(layer.weights.shape[0], -1).astype(np.int64)
    bias = np.zeros(len(weights), np.int64) if layer.bias is None else layer.bias.astype(np.int64)
    positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    return Accumulators(
        bias - source.zero_point * weights.sum(axis=1),
        bias + positive * below + negative * above,
        bias + positive * above + negative * below,
    )


def sum_accumulators(source: TensorType, elements: int) -> Accumulators:
    """Accumulators of a sum of `elements` inputs minus their zero point, as one channel."""
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    bounds = (-elements * source.zero_point, elements * below, elements * above)
    start, least, greatest = (np.array([value], np.int64) for value in bounds)
    return Accumulators(start, least, greatest)


def window_accumulators(source: TensorType, elements: int) -> Accumulators:
    """As `sum_accumulators`, of at most `elements` inputs, for a kernel that subtracts the zero point itself."""
    return replace(sum_accumulators(source, elements), start=np.zeros(1, np.int64))


def product_of_tensors(own: TensorType, other: TensorType) -> Accumulators:
    """Accumulators of a product of two elements, each minus its zero point, as one channel."""
    corners = [(a - own.zero_point) * (b - other.zero_point) for a in (own.lo, own.hi) for b in (other.lo, other.hi)]
    start, least, greatest = (np.array([value], np.int64) for value in (0, min(corners), max(corners)))
    return Accumulators(start, least, greatest)


def fold_clamps(requantize: Requantize | None, clamps: Sequence[Clamp]) -> Requantize | None:
    """A requantization with the clamps after it folded in."""
    for clamp in clamps:
        match requantize:
            case Multiplier():
                lo, hi = np.clip((requantize.lo, requantize.hi), clamp.lo, clamp.hi).tolist()
                requantize = replace(requantize, lo=lo, hi=hi)
            case ShiftTable():
                table = saturate(requantize.table, clamp.lo, clamp.hi, requantize.table.dtype.type)
                requantize = replace(requantize, table=table)
    return requantize


@dataclass(frozen=True)
class FoldedAddition:
    """y = clamp(zero + ((own * x + other * z + bias) >> shift), lo, hi) on stored integers, modulo 2**32.

    own, other: multipliers of the two inputs. bias: holds the zero points of the inputs and the rounding half, and the
    output's zero point, too, where the sum stays within int32; `zero` is 0 then.
    """

    own: int
    other: int
    bias: int
    shift: int
    zero: int
    lo: int
    hi: int


def fold_addition(add: Add, own: int, types: Mapping[str, TensorType], clamps: Sequence[Clamp] = ()) -> FoldedAddition:
    """Constants of an addition and of the clamps after it; `own` is the number of the input that is named first."""
    kinds = [types[name] for name in add.inputs]
    centre = sum(m * kind.zero_point for m, kind in zip(add.multipliers, kinds, strict=True))
    bias = (1 << add.shift >> 1) - centre
    least = bias + sum(m * kind.lo for m, kind in zip(add.multipliers, kinds, strict=True))
    greatest = bias + sum(m * kind.hi for m, kind in zip(add.multipliers, kinds, strict=True))
    zero = add.output.zero_point
    folded = zero << add.shift
    if least + folded >= INT32_MIN and greatest + folded <= INT32_MAX:
        bias, zero = bias + folded, 0
    lo, hi = add.lo, add.hi
    for clamp in clamps:
        lo, hi = np.clip((lo, hi), clamp.lo, clamp.hi).tolist()
    wrapped = (bias + 2**31) % 2**32 - 2**31
    return FoldedAddition(add.multipliers[own], add.multipliers[1 - own], wrapped, add.shift, zero, lo, hi)


def channel_step_functions(
    requantize: Multiplier, sums: Accumulators, zero: int
) -> Iterator[tuple[int, int, StepFunction]]:
    """Multiplier, shift and step function of every channel."""
    channels = len(sums.start)
    multipliers = np.broadcast_to(requantize.multiplier, (channels,)).tolist()
    shifts = np.broadcast_to(requantize.shift, (channels,)).tolist()
    for c, (multiplier, shift) in enumerate(zip(multipliers, shifts, strict=True)):
        bounds = int(sums.least[c]), int(sums.greatest[c])
        steps = multiplier_step_function(multiplier, shift, zero, (requantize.lo, requantize.hi), bounds)
        yield multiplier, shift, steps


def multiplier_step_function(
    multiplier: int, shift: int, zero: int, clamp: tuple[int, int], bounds: tuple[int, int]
) -> StepFunction:
    """Step function of clamp(zero + round(x * m, s)) on x in `bounds`: T[k] = ceil(((k - zero) 2**s - half) / m)."""
    lo, hi = clamp
    least, greatest = bounds
    half = 1 << shift >> 1
    if multiplier == 0:
        return StepFunction(least, greatest, min(max(zero, lo), hi), ())
    thresholds = [-(-((k - zero << shift) - half) // multiplier) for k in range(lo + 1, hi + 1)]
    return StepFunction(least, greatest, lo, thresholds)


def table_line(table: NDArray[np.int64]) -> Line | None:
    """The rising or falling line that equals all entries of a table [256] on -128 .. 127, or None.

    Outside this range the kernel clamps the result to the table's end values, as the table's index is clamped by
    definition.
    """
    falls = table[0] > table[-1]
    rising = -table if falls else table
    if (np.diff(rising) < 0).any():
        return None
    first = int(rising[0])
    thresholds = [int(np.searchsorted(rising, k)) - 128 for k in range(first + 1, int(rising[-1]) + 1)]
    steps = StepFunction(-128, 127, first, thresholds)
    line = find_line(steps, _middle_slope(steps), MAGIC)
    if line is None:
        return None
    if falls:
        # -(X slope + addend - MAGIC) + MAGIC
        line = Line(-line.slope, np.float32(2 * MAGIC - float(line.addend)), line.offset)
    return line if _equals_table(line, table) else None


def _equals_table(line: Line, table: NDArray[np.int64]) -> bool:
    """Whether the line, clamped to the table's ends, gives all 256 entries."""
    lo, hi = min(table[0], table[-1]), max(table[0], table[-1])
    return all(min(max(value_at(line, t, MAGIC), lo), hi) == y for t, y in enumerate(table.tolist(), -128))


def _middle_slope(steps: StepFunction) -> float:
    """A slope between the bounds that each pair of a lower and an upper point sets for a line through all steps."""
    above, below = np.array(steps.above(), np.float64), np.array(steps.below(), np.float64)
    if not len(above) or not len(below):
        return 1.0
    rise = above[:, np.newaxis, 0] - below[np.newaxis, :, 0]
    run = above[:, np.newaxis, 1] - below[np.newaxis, :, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = rise / run
    least = max(0.0, float(slopes[run > 0].max(initial=0.0)))
    greatest = float(slopes[run < 0].min(initial=np.inf))
    return (least + greatest) / 2 if np.isfinite(greatest) else least + 1.0
