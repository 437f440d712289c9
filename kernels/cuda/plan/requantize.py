"""Requantization and residual addition of a step as the kernels want them: defines and constants.

Forms, the cheapest exact one for the whole layer (`requantize.cuh` holds the device code of each):

- RAW: the int32 accumulator leaves the network.
- LINE: one float multiply-add, proved (line.py), X = MAGIC + acc + offset made by the bias alone.
- CONVERTED_LINE: the same with X = float(acc + offset), where the accumulator comes scaled or the slope is steep.
- FINE_LINE: a line whose slope is held in two floats, X = float(acc).
- SHIFTED_LINE: shift, then a line in place of a table: clamp(round(t p + B, q)), checked on its 256 entries.
- MULTIPLIER: the 64-bit product of model/layers.py.
- TABLE: shift, clamp, one byte of the channel's table.

Per channel there are eight int32 in a row, two 16-byte loads: start, slope or multiplier, addend or shift, offset;
lo, hi, and two that are free. `start` is what a sum starts with: the bias, less zero point times weights, and the
line's offset.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.kernel import Tensors
from edgemeta.kernels.cuda.plan.plan import Constant
from edgemeta.kernels.lowering.line import MAGIC, MAGIC_BITS, Line, Steps, find_fine_line, find_line, value_at
from edgemeta.kernels.lowering.steps import ConvStep
from edgemeta.model.fixedpoint import INT32_MAX, INT32_MIN, saturate
from edgemeta.model.layers import Add, Clamp, Conv, Dense, Multiplier, Requantize, ShiftTable, TensorType

Defines = tuple[tuple[str, int], ...]

_LEAST_POSITIVE_BITS, _INFINITE_BITS = 1, 0x7F800000


class Form(IntEnum):
    """Values of `enum Form` in requantize.cuh."""

    RAW = 0
    LINE = 1
    CONVERTED_LINE = 2
    FINE_LINE = 3
    SHIFTED_LINE = 4
    MULTIPLIER = 5
    TABLE = 6


@dataclass(frozen=True, eq=False)
class Sums:
    """Accumulators of a layer: start int64 [C] is the bias less zero point times weights, so that a kernel sums w * x.

    least, greatest: int64 [C], bounds of the whole accumulator whatever the input (model/prove_arithmetic.py).
    """

    start: NDArray[np.int64]
    least: NDArray[np.int64]
    greatest: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Finish:
    """What a kernel needs to turn sums into outputs.

    defines: PREFIX_FORM, PREFIX_LO, PREFIX_HI, PREFIX_ZERO, PREFIX_SCALE_BITS. channels: int32 [padded, 8].
    table: uint8 [padded, 256], the entries' bytes, at column t + 128; one row of zeros for other forms.
    """

    defines: Defines
    channels: Constant
    table: Constant


def weighted_sums(layer: Conv | Dense, source: TensorType) -> Sums:
    """Bounds and starts of a layer's accumulators on input of type `source`."""
    weights = layer.weights.decode().reshape(layer.weights.shape[0], -1).astype(np.int64)
    bias = np.zeros(len(weights), np.int64) if layer.bias is None else layer.bias.astype(np.int64)
    positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    return Sums(
        bias - source.zero_point * weights.sum(axis=1),
        bias + positive * below + negative * above,
        bias + positive * above + negative * below,
    )


def plain_sums(source: TensorType, elements: int) -> Sums:
    """The sum of `elements` inputs less their zero point, as one channel."""
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    bounds = (-elements * source.zero_point, elements * below, elements * above)
    start, least, greatest = (np.array([value], np.int64) for value in bounds)
    return Sums(start, least, greatest)


def convolution(prefix: str, step: ConvStep, tensors: Tensors, padded: int, scale_bits: int = 0) -> Finish:
    """The main convolution's requantization, with the clamps behind it unless an addition comes between.

    padded: channels that the kernel runs over, at least the layer's. scale_bits: the kernel's accumulators are the sums
    times 2**scale_bits, and so is `start`.
    """
    conv = step.conv
    clamps = () if step.add else step.after
    requantize = clamped(conv.requantize, clamps)
    return finish(prefix, conv.name, requantize, conv.output, _conv_sums(conv, tensors), padded, scale_bits)


def shortcut(prefix: str, conv: Conv, tensors: Tensors, padded: int) -> Finish:
    """The requantization of the convolution beside the main one."""
    return finish(prefix, conv.name, conv.requantize, conv.output, _conv_sums(conv, tensors), padded)


def _conv_sums(conv: Conv, tensors: Tensors) -> Sums:
    return weighted_sums(conv, tensors.types[conv.input])


def clamped(requantize: Requantize | None, clamps: Sequence[Clamp]) -> Requantize | None:
    """The same requantization with clamps behind it."""
    for clamp in clamps:
        match requantize:
            case Multiplier():
                lo, hi = np.clip((requantize.lo, requantize.hi), clamp.lo, clamp.hi).tolist()
                requantize = replace(requantize, lo=lo, hi=hi)
            case ShiftTable():
                table = saturate(requantize.table, clamp.lo, clamp.hi, requantize.table.dtype.type)
                requantize = replace(requantize, table=table)
    return requantize


def residual(step: ConvStep, tensors: Tensors) -> Defines:
    """`addition` of the layer behind a convolution and of its clamps; empty without one."""
    if step.add is None:
        return ()
    own = 0 if step.add.inputs[0] == step.conv.name else 1
    return addition(step.add, own, tensors, step.after)


def addition(add: Add, own: int, tensors: Tensors, clamps: Sequence[Clamp] = ()) -> Defines:
    """ADD_* for `add_residual` (requantize.cuh), whose first argument is the addition's input number `own`.

    y = clamp(ADD_ZERO + ((ADD_OWN * own + ADD_OTHER * other + ADD_BIAS) >> ADD_SHIFT), ADD_LO, ADD_HI) on stored
    integers, modulo 2**32: zero points and the rounding half are in ADD_BIAS, and the output's zero point, too, where
    the sum stays within int32.
    """
    kinds = [tensors.types[name] for name in add.inputs]
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
    return (
        ("ADD_OWN", add.multipliers[own]),
        ("ADD_OTHER", add.multipliers[1 - own]),
        ("ADD_BIAS", (bias + 2**31) % 2**32 - 2**31),
        ("ADD_SHIFT", add.shift),
        ("ADD_ZERO", zero),
        ("ADD_LO", lo),
        ("ADD_HI", hi),
    )


def finish(
    prefix: str,
    name: str,
    requantize: Requantize | None,
    output: TensorType,
    sums: Sums,
    padded: int,
    scale_bits: int = 0,
) -> Finish:
    """Choose the cheapest exact form and lay its constants out.

    sums: [C], or [1] for all channels. name: of the layer, for the constants' names.
    """
    channels = output.shape[2]
    sums = Sums(*(np.broadcast_to(each, (channels,)) for each in (sums.start, sums.least, sums.greatest)))
    rows = np.zeros((padded, 8), np.int64)
    table = np.zeros((1, 256), np.uint8)
    lo, hi, zero = output.lo, output.hi, output.zero_point
    match requantize:
        case None:
            form = Form.RAW
            rows[:channels, 0] = sums.start << scale_bits
        case Multiplier():
            lo, hi = requantize.lo, requantize.hi
            form = _multiplier(rows[:channels], requantize, sums, zero, scale_bits)
        case ShiftTable():
            form = _table(rows[:channels], requantize, sums, scale_bits)
            if form is Form.TABLE:
                table = np.zeros((padded, 256), np.uint8)
                table[:channels] = requantize.table.view(np.uint8)
    return _laid_out(prefix, name, form, rows, table, {"LO": lo, "HI": hi, "ZERO": zero, "SCALE_BITS": scale_bits})


def line_of_multiples(
    prefix: str, name: str, requantize: Requantize | None, output: TensorType, sums: Sums, padded: int, multiple: int
) -> Finish | None:
    """LINE for accumulators that a kernel has times `multiple`, which saves it the division; None if there is none.

    sums: start comes times `multiple`, least and greatest are the accumulator's own.
    """
    if not isinstance(requantize, Multiplier):
        return None
    rows = np.zeros((padded, 8), np.int64)
    zero = output.zero_point
    if not _multiplier_lines(rows[: output.shape[2]], requantize, sums, zero, 0, Form.LINE, multiple):
        return None
    bounds = {"LO": requantize.lo, "HI": requantize.hi, "ZERO": zero, "SCALE_BITS": 0}
    return _laid_out(prefix, name, Form.LINE, rows, np.zeros((1, 256), np.uint8), bounds)


def _laid_out(
    prefix: str, name: str, form: Form, rows: NDArray[np.int64], table: NDArray[np.uint8], others: dict[str, int]
) -> Finish:
    defines = {"FORM": int(form), **others}
    return Finish(
        tuple((f"{prefix}_{key}", value) for key, value in defines.items()),
        Constant(f"{name}.channels", rows.astype(np.uint32, casting="unsafe").view(np.int32)),
        Constant(f"{name}.table", table),
    )


def _multiplier(rows: NDArray[np.int64], requantize: Multiplier, sums: Sums, zero: int, scale_bits: int) -> Form:
    """Fill rows for LINE or CONVERTED_LINE if every channel has a line, else for MULTIPLIER."""
    for form in (Form.LINE, Form.CONVERTED_LINE):
        if (form is Form.CONVERTED_LINE or scale_bits == 0) and _multiplier_lines(
            rows, requantize, sums, zero, scale_bits, form
        ):
            return form
    rows[:, 0] = sums.start << scale_bits
    if _fine_lines(rows, requantize, sums, zero, scale_bits):
        return Form.FINE_LINE
    rows[:, 1] = requantize.multiplier
    rows[:, 2] = requantize.shift
    return Form.MULTIPLIER


def _multiplier_lines(
    rows: NDArray[np.int64],
    requantize: Multiplier,
    sums: Sums,
    zero: int,
    scale_bits: int,
    form: Form,
    multiple: int = 1,
) -> bool:
    base, bits = (MAGIC, MAGIC_BITS) if form is Form.LINE else (0, 0)
    for c, (multiplier, shift, steps) in enumerate(_channel_steps(requantize, sums, zero)):
        line = find_line(replace(steps, multiple=multiple), multiplier / 2.0**shift / multiple, base)
        if line is None or not _fits(multiple * steps.least, multiple * steps.greatest, line, bits, scale_bits):
            return False
        rows[c, 0] = int(sums.start[c]) + line.offset + bits << scale_bits
        rows[c, 1] = _bits(line.slope / np.float32(1 << scale_bits))
        rows[c, 2] = _bits(line.addend)
    return True


def _fine_lines(rows: NDArray[np.int64], requantize: Multiplier, sums: Sums, zero: int, scale_bits: int) -> bool:
    for c, (multiplier, shift, steps) in enumerate(_channel_steps(requantize, sums, zero)):
        line = find_fine_line(steps, multiplier, shift)
        if line is None:
            return False
        scale = np.float32(1 << scale_bits)
        rows[c, 1:4] = _bits(line.slope / scale), _bits(line.rest / scale), _bits(line.offset)
    return True


def _channel_steps(requantize: Multiplier, sums: Sums, zero: int) -> Iterator[tuple[int, int, Steps]]:
    """Multiplier, shift and steps of every channel."""
    channels = len(sums.start)
    multipliers = np.broadcast_to(requantize.multiplier, (channels,)).tolist()
    shifts = np.broadcast_to(requantize.shift, (channels,)).tolist()
    for c, (multiplier, shift) in enumerate(zip(multipliers, shifts, strict=True)):
        bounds = int(sums.least[c]), int(sums.greatest[c])
        steps = multiplier_steps(multiplier, shift, zero, (requantize.lo, requantize.hi), bounds)
        yield multiplier, shift, steps


def _fits(least: int, greatest: int, line: Line, bits: int, scale_bits: int) -> bool:
    """No overflow of int32 on the way to X, and no bits of infinity or NaN among those of LINE."""
    low, high = least + line.offset + bits << scale_bits, greatest + line.offset + bits << scale_bits
    if bits:
        return low >= _LEAST_POSITIVE_BITS and high < _INFINITE_BITS
    return low >= INT32_MIN and high <= INT32_MAX


def multiplier_steps(multiplier: int, shift: int, zero: int, clamp: tuple[int, int], bounds: tuple[int, int]) -> Steps:
    """Steps of clamp(zero + round(x * m, s)) on x in `bounds`: T[k] = ceil(((k - zero) 2**s - half) / m)."""
    lo, hi = clamp
    least, greatest = bounds
    half = 1 << shift >> 1
    if multiplier == 0:
        return Steps(least, greatest, min(max(zero, lo), hi), ())
    thresholds = [-(-((k - zero << shift) - half) // multiplier) for k in range(lo + 1, hi + 1)]
    return Steps(least, greatest, lo, thresholds)


def _table(rows: NDArray[np.int64], requantize: ShiftTable, sums: Sums, scale_bits: int) -> Form:
    """Fill rows for SHIFTED_LINE if every channel's table is a line, else for TABLE."""
    shifts = np.broadcast_to(requantize.shift, (len(rows),)).tolist()
    halves = np.array([1 << shift >> 1 for shift in shifts], np.int64)
    fits = (sums.greatest + halves << scale_bits).max() <= INT32_MAX and (sums.least << scale_bits).min() >= INT32_MIN
    if fits and max(shifts) + scale_bits <= 31 and _table_lines(rows, requantize, shifts, sums):
        rows[:, 0] = sums.start + halves << scale_bits
        rows[:, 6] = np.array(shifts) + scale_bits
        return Form.SHIFTED_LINE
    rows[:] = 0
    rows[:, 0] = sums.start << scale_bits
    rows[:, 2] = shifts
    return Form.TABLE


def _table_lines(rows: NDArray[np.int64], requantize: ShiftTable, shifts: Sequence[int], sums: Sums) -> bool:
    tables = np.broadcast_to(requantize.table, (len(rows), 256)).astype(np.int64)
    for c, (table, shift) in enumerate(zip(tables, shifts, strict=True)):
        line = table_line(table)
        low, high = int(sums.least[c]) >> shift, (int(sums.greatest[c]) >> shift) + 1
        if line is None or not _fits(low, high, line, MAGIC_BITS, 0):
            return False
        rows[c, 1:4] = _bits(line.slope), _bits(line.addend), line.offset + MAGIC_BITS
        rows[c, 4:6] = min(table[0], table[-1]), max(table[0], table[-1])
    return True


def table_line(table: NDArray[np.int64]) -> Line | None:
    """The line that equals a table [256] on -128 .. 127, entry by entry, up or down; None if the table is none.

    Beyond these ends it is clamped to the table's ends by the kernel, as the table's index is by definition.
    """
    falls = table[0] > table[-1]
    rising = -table if falls else table
    if (np.diff(rising) < 0).any():
        return None
    first = int(rising[0])
    thresholds = [int(np.searchsorted(rising, k)) - 128 for k in range(first + 1, int(rising[-1]) + 1)]
    steps = Steps(-128, 127, first, thresholds)
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


def _middle_slope(steps: Steps) -> float:
    """A slope that some line through all steps has: each pair of a lower and an upper bound limits it."""
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


def _bits(value: np.float32) -> int:
    return int(np.float32(value).view(np.int32))
