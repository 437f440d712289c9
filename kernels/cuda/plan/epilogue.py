"""Epilogues: requantization and residual addition of a step as preprocessor definitions and constants for kernels.

Forms, of which the cheapest exact one is chosen for the whole layer (`requantize.cuh` has the device code of each):

- RAW: the int32 accumulator is the network's output.
- LINE: one float multiply-add, proved (line.py); the bias alone makes X = MAGIC + acc + offset.
- CONVERTED_LINE: the same with X = float(acc + offset), for scaled accumulators or a steep slope.
- FINE_LINE: a line with its slope in two floats, X = float(acc).
- SHIFTED_LINE: shift, then a line instead of a table: clamp(round(t p + B, q)), checked on all 256 entries.
- MULTIPLIER: the 64-bit product of model/layers/types.py.
- TABLE: shift, clamp, one byte of the channel's table.

Each channel has eight consecutive int32, two 16-byte loads: start, slope or multiplier, addend or shift, offset; lo,
hi, and two unused ones. `start` is the initial value of a sum: the bias, minus zero point times weights, plus the
line's offset.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.kernel import Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Constant, Defines
from edgemeta.kernels.lowering.line import MAGIC, MAGIC_BITS, Line, find_fine_line, find_line
from edgemeta.kernels.lowering.requantization import (
    Accumulators,
    channel_step_functions,
    fold_addition,
    fold_clamps,
    product_accumulators,
    table_line,
)
from edgemeta.kernels.lowering.steps import ConvStep
from edgemeta.model.fixedpoint import INT32_MAX, INT32_MIN
from edgemeta.model.layers import Add, Clamp, Conv, Multiplier, Requantize, ShiftTable, TensorType

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
class Epilogue:
    """Definitions and constants with which a kernel converts sums to outputs.

    defines: PREFIX_FORM, PREFIX_LO, PREFIX_HI, PREFIX_ZERO, PREFIX_SCALE_BITS. channels: int32 [padded, 8].
    table: uint8 [padded, 256], the entries' bytes, at column t + 128; one row of zeros for other forms.
    """

    defines: Defines
    channels: Constant
    table: Constant

    def channels_by_vector(self, count: int) -> Constant:
        """int32 [half, channel of the vector, vector, 4], for threads that each have `count` channels.

        Adjacent threads read adjacent 16 bytes.
        """
        split = self.channels.data.reshape(-1, count, 2, 4)
        return replace(self.channels, data=np.ascontiguousarray(split.transpose(2, 1, 0, 3)))


def conv_epilogue(prefix: str, step: ConvStep, tensors: Tensors, padded: int) -> Epilogue:
    """Epilogue of the main convolution, with the clamps after it unless an addition comes between.

    padded: channels that the kernel runs over, at least the layer's.
    """
    conv = step.conv
    clamps = () if step.add else step.after
    requantize = fold_clamps(conv.requantize, clamps)
    return make_epilogue(prefix, conv.name, requantize, conv.output, _conv_sums(conv, tensors), padded)


def shortcut_epilogue(prefix: str, conv: Conv, tensors: Tensors, padded: int) -> Epilogue:
    """Epilogue of the shortcut."""
    return make_epilogue(prefix, conv.name, conv.requantize, conv.output, _conv_sums(conv, tensors), padded)


def _conv_sums(conv: Conv, tensors: Tensors) -> Accumulators:
    return product_accumulators(conv, tensors.types[conv.input])


def residual_defines(step: ConvStep, tensors: Tensors) -> Defines:
    """`addition_defines` of the addition after a convolution and of its clamps; empty without one."""
    if step.add is None:
        return ()
    own = 0 if step.add.inputs[0] == step.conv.name else 1
    return addition_defines(step.add, own, tensors, step.after)


def addition_defines(add: Add, own: int, tensors: Tensors, clamps: Sequence[Clamp] = ()) -> Defines:
    """ADD_* of `fold_addition` for `add_residual` (requantize.cuh), whose first argument is input number `own`."""
    folded = fold_addition(add, own, tensors.types, clamps)
    return tuple((f"ADD_{name.upper()}", value) for name, value in asdict(folded).items())


def make_epilogue(
    prefix: str,
    name: str,
    requantize: Requantize | None,
    output: TensorType,
    sums: Accumulators,
    padded: int,
    scale_bits: int = 0,
) -> Epilogue:
    """Choose the cheapest exact form and lay out its constants.

    sums: [C], or [1] for all channels. name: of the layer, for the constants' names.
    """
    channels = output.shape[2]
    sums = Accumulators(*(np.broadcast_to(each, (channels,)) for each in (sums.start, sums.least, sums.greatest)))
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


def line_epilogue_of_multiples(
    prefix: str,
    name: str,
    requantize: Requantize | None,
    output: TensorType,
    sums: Accumulators,
    padded: int,
    multiple: int,
) -> Epilogue | None:
    """LINE for accumulators multiplied by `multiple`, which saves the kernel a division; None if there is no such line.

    sums: start is multiplied by `multiple`, least and greatest are not.
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
) -> Epilogue:
    defines = {"FORM": int(form), **others}
    return Epilogue(
        tuple((f"{prefix}_{key}", value) for key, value in defines.items()),
        Constant(f"{name}.channels", rows.astype(np.uint32, casting="unsafe").view(np.int32)),
        Constant(f"{name}.table", table),
    )


def _multiplier(
    rows: NDArray[np.int64], requantize: Multiplier, sums: Accumulators, zero: int, scale_bits: int
) -> Form:
    """Fill rows for the first form that every channel has: LINE, CONVERTED_LINE, FINE_LINE, else MULTIPLIER."""
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
    sums: Accumulators,
    zero: int,
    scale_bits: int,
    form: Form,
    multiple: int = 1,
) -> bool:
    base, bits = (MAGIC, MAGIC_BITS) if form is Form.LINE else (0, 0)
    for c, (multiplier, shift, steps) in enumerate(channel_step_functions(requantize, sums, zero)):
        line = find_line(replace(steps, multiple=multiple), multiplier / 2.0**shift / multiple, base)
        if line is None or not _fits(multiple * steps.least, multiple * steps.greatest, line, bits, scale_bits):
            return False
        rows[c, 0] = int(sums.start[c]) + line.offset + bits << scale_bits
        rows[c, 1] = _bits(line.slope / np.float32(1 << scale_bits))
        rows[c, 2] = _bits(line.addend)
    return True


def _fine_lines(
    rows: NDArray[np.int64], requantize: Multiplier, sums: Accumulators, zero: int, scale_bits: int
) -> bool:
    for c, (multiplier, shift, steps) in enumerate(channel_step_functions(requantize, sums, zero)):
        line = find_fine_line(steps, multiplier, shift)
        if line is None:
            return False
        scale = np.float32(1 << scale_bits)
        rows[c, 1:4] = _bits(line.slope / scale), _bits(line.rest / scale), _bits(line.offset)
    return True


def _fits(least: int, greatest: int, line: Line, bits: int, scale_bits: int) -> bool:
    """Whether int32 does not overflow before X, and the bits of LINE are never those of infinity or NaN."""
    low, high = least + line.offset + bits << scale_bits, greatest + line.offset + bits << scale_bits
    if bits:
        return low >= _LEAST_POSITIVE_BITS and high < _INFINITE_BITS
    return low >= INT32_MIN and high <= INT32_MAX


def _table(rows: NDArray[np.int64], requantize: ShiftTable, sums: Accumulators, scale_bits: int) -> Form:
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


def _table_lines(rows: NDArray[np.int64], requantize: ShiftTable, shifts: Sequence[int], sums: Accumulators) -> bool:
    tables = np.broadcast_to(requantize.table, (len(rows), 256)).astype(np.int64)
    for c, (table, shift) in enumerate(zip(tables, shifts, strict=True)):
        line = table_line(table)
        low, high = int(sums.least[c]) >> shift, (int(sums.greatest[c]) >> shift) + 1
        if line is None or not _fits(low, high, line, MAGIC_BITS, 0):
            return False
        rows[c, 1:4] = _bits(line.slope), _bits(line.addend), line.offset + MAGIC_BITS
        rows[c, 4:6] = min(table[0], table[-1]), max(table[0], table[-1])
    return True


def _bits(value: np.float32) -> int:
    return int(np.float32(value).view(np.int32))
