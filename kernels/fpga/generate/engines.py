"""Engines: a Verilog module with its parameters and the contents of its memories, from one layer each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.codes import codes_of
from edgemeta.kernels.lowering.requantization import fold_addition, product_accumulators, sum_accumulators
from edgemeta.model.layers import Add, AveragePool, Clamp, Conv, Dense, Multiplier, Requantize, ShiftTable, TensorType
from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights

RAW, TABLE, CLAMP = 0, 1, 2
"""Modes of requantize.sv."""

_BLOCK_WORDS = 64
_BLOCK_BITS = 4096
"""A memory with fewer words and fewer bits is cheaper in LUT RAM than in block RAM."""

_LUT_RAM_FOLDS = 8
"""From so many folds on windows in LUT RAM are cheaper than in registers with a multiplexer."""


@dataclass(frozen=True)
class Range:
    """Least and greatest integer that a tensor can hold, which its type may exceed."""

    lo: int
    hi: int

    @property
    def is_signed(self) -> bool:
        """Whether it has negative integers."""
        return self.lo < 0

    @property
    def bits(self) -> int:
        """Bits of a two's complement, or of an unsigned integer where none is negative."""
        if self.is_signed:
            return max((-self.lo - 1).bit_length(), self.hi.bit_length()) + 1
        return max(1, self.hi.bit_length())


@dataclass(frozen=True, eq=False)
class Memory:
    """Contents of one memory of an engine: `words` unsigned integers of `width` bits. suffix: of its file's name."""

    suffix: str
    width: int
    words: Sequence[int]

    def text(self) -> str:
        """As $readmemh reads it."""
        digits = -(-self.width // 4)
        return "".join(f"{word:0{digits}x}\n" for word in self.words)


@dataclass(frozen=True, eq=False)
class Engine:
    """One instance of a module.

    reads: tensors that its streams carry, in the order of its inputs. out: elements per image and bits of one. steps:
    clocks that it needs per image where it is never held up, of its input side and of its computing side.
    """

    name: str
    module: str
    reads: tuple[str, ...]
    parameters: Mapping[str, int | str]
    memories: tuple[Memory, ...]
    out: TensorType
    out_range: Range
    steps: int
    layers: tuple[str, ...] = field(default=())

    @property
    def out_bits(self) -> int:
        """Bits of an element of its output stream."""
        return 32 if self.out.bits == 32 else 8


def conv_engine(
    layer: Conv | Dense,
    source: TensorType,
    source_range: Range,
    folds: int,
    requantize: Requantize | None,
    *,
    constant: bool = False,
) -> Engine:
    """The engine of a convolution, or of a dense layer as a 1x1 convolution of a 1x1 map.

    folds: parts that the input channels are summed in. requantize: the layer's own, with the clamps after it folded in.
    constant: weights, tables and start values are logic instead of memories.
    """
    shape = _conv_shape(layer, source)
    weights = layer.weights
    assert isinstance(weights, PowerOfTwoWeights | FixedWeights)
    codes = codes_of(weights)
    outputs, kernel = weights.shape[0], shape["K"]
    sums = product_accumulators(layer, source)
    rounding = _Rounding(requantize, layer.output, outputs)
    start = sums.start + codes.negatives() + rounding.offset
    width = _width(sums.least + rounding.offset, sums.greatest + rounding.offset)
    channels = shape["C"] // folds
    arranged = codes.codes.reshape(codes.terms, outputs, kernel, kernel, folds, channels).transpose(1, 0, 4, 2, 3, 5)
    steps = outputs * codes.terms * folds
    words = _pack(arranged.reshape(steps, -1), codes.bits)
    count = kernel * kernel * channels
    memories = (
        Memory("weights", count * codes.bits, words),
        rounding.start_memory(start, width),
        *rounding.tables(),
    )
    line = shape["W"] * shape["C"]
    stored = Range(min(source_range.lo, source.zero_point), max(source_range.hi, source.zero_point))
    parameters: dict[str, int | str] = {
        **shape,
        "OUT_C": outputs,
        "FOLDS": folds,
        "TERMS": codes.terms,
        "BITS": stored.bits,
        "SIGNED": int(stored.is_signed),
        "PAD": source.zero_point,
        "CODE": codes.bits,
        "WIDTH": width,
        **rounding.parameters(),
        "LINE_STYLE": _style(line, 8),
        "WINDOW_STYLE": "distributed" if folds >= _LUT_RAM_FOLDS else "registers",
        "WEIGHT_STYLE": "logic" if constant else _style(steps, memories[0].width),
        "TABLE_STYLE": "logic" if constant else "block",
    }
    reading = shape["OUT_H"] * ((shape["OUT_W"] - 1) * shape["STRIDE"] + kernel) * shape["C"]
    computing = shape["OUT_H"] * shape["OUT_W"] * steps
    writing = shape["H"] * line
    return Engine(
        layer.name,
        "edgemeta_conv",
        (layer.input,),
        parameters,
        memories,
        layer.output,
        rounding.out_range,
        max(reading + 3 * shape["OUT_H"] + 1, computing, writing),
        (layer.name,),
    )


def pool_engine(layer: AveragePool, source: TensorType, source_range: Range, requantize: Requantize) -> Engine:
    """The engine of a global average pool."""
    height, width, channels = source.shape
    sums = sum_accumulators(source, height * width)
    rounding = _Rounding(requantize, layer.output, channels)
    start = np.broadcast_to(sums.start, (channels,)) + rounding.offset
    bits = max(_width(sums.least + sums.start * 0 + rounding.offset, sums.greatest + rounding.offset), 9)
    parameters: dict[str, int | str] = {
        "C": channels,
        "PIXELS": height * width,
        "SIGNED": int(source_range.is_signed),
        "WIDTH": bits,
        **rounding.parameters(),
        "TABLE_STYLE": "block",
    }
    return Engine(
        layer.name,
        "edgemeta_pool",
        (layer.input,),
        parameters,
        (rounding.start_memory(start, bits), *rounding.tables()),
        layer.output,
        rounding.out_range,
        height * width * channels,
        (layer.name,),
    )


def add_engine(
    layer: Add, types: Mapping[str, TensorType], ranges: Mapping[str, Range], clamps: Sequence[Clamp]
) -> Engine:
    """The engine of an addition with the clamps after it."""
    folded = fold_addition(layer, 0, types, clamps)
    parameters: dict[str, int | str] = {
        "SIGNED_A": int(ranges[layer.inputs[0]].is_signed),
        "SIGNED_B": int(ranges[layer.inputs[1]].is_signed),
        "SHIFT_A": folded.own.bit_length() - 1,
        "SHIFT_B": folded.other.bit_length() - 1,
        "BIAS": folded.bias,
        "SHIFT": folded.shift,
        "ZERO": folded.zero,
        "LO": folded.lo,
        "HI": folded.hi,
    }
    elements = int(np.prod(layer.output.shape))
    out_range = Range(folded.lo, folded.hi)
    return Engine(
        layer.name, "edgemeta_add", layer.inputs, parameters, (), layer.output, out_range, elements, (layer.name,)
    )


def clamp_engine(layer: Clamp, source_range: Range) -> Engine:
    """The engine of a clamp that no other engine includes."""
    lo, hi = max(layer.lo, source_range.lo), min(layer.hi, source_range.hi)
    parameters: dict[str, int | str] = {"SIGNED": int(source_range.is_signed), "LO": layer.lo, "HI": layer.hi}
    elements = int(np.prod(layer.output.shape))
    out_range = Range(min(lo, hi), max(lo, hi))
    return Engine(
        layer.name, "edgemeta_clamp", (layer.input,), parameters, (), layer.output, out_range, elements, (layer.name,)
    )


class _Rounding:
    """Requantization as the engines do it: everything but shift and table is part of the start value.

    offset: int64 [C], the rounding half and, for a clamp, the output's zero point before the shift.
    """

    def __init__(self, requantize: Requantize | None, output: TensorType, channels: int) -> None:
        self._requantize = requantize
        shift = np.zeros(channels, np.int64)
        zero = 0
        self.out_range = Range(-(2**31), 2**31 - 1)
        match requantize:
            case Multiplier():
                shift = shift + requantize.shift - np.log2(requantize.multiplier).astype(np.int64)
                zero = output.zero_point
                self.out_range = Range(requantize.lo, requantize.hi)
            case ShiftTable():
                shift = shift + requantize.shift
                self.out_range = Range(int(requantize.table.min()), int(requantize.table.max()))
        self._shift: NDArray[np.int64] = shift
        self.offset: NDArray[np.int64] = ((np.int64(1) << shift) >> 1) + (zero << shift)

    def parameters(self) -> dict[str, int | str]:
        """Of requantize.sv."""
        mode = {type(None): RAW, ShiftTable: TABLE, Multiplier: CLAMP}[type(self._requantize)]
        lo, hi = (-128, 127) if mode != CLAMP else (self.out_range.lo, self.out_range.hi)
        own = len(np.unique(self._shift)) > 1
        return {
            "MODE": mode,
            "SHIFTS": int(own),
            "SHIFT": 0 if own else int(self._shift[0]),
            "TABLES": len(self._table()),
            "LO": lo,
            "HI": hi,
        }

    def start_memory(self, start: NDArray[np.int64], width: int) -> Memory:
        """A start value for each channel, with its shift above it where shifts differ."""
        values = [int(value) & ((1 << width) - 1) for value in start]
        if len(np.unique(self._shift)) > 1:
            values = [value | int(shift) << width for value, shift in zip(values, self._shift, strict=True)]
            width += 5
        return Memory("start", width, values)

    def tables(self) -> tuple[Memory, ...]:
        """One memory with the tables of the channels; none without tables."""
        if not isinstance(self._requantize, ShiftTable):
            return ()
        return (Memory("table", 8, self._table().ravel().tolist()),)

    def _table(self) -> NDArray[np.uint8]:
        """Tables [channels, 256], or [1, 256] where all are equal."""
        if not isinstance(self._requantize, ShiftTable):
            return np.zeros((1, 256), np.uint8)
        table: NDArray[np.uint8] = np.ascontiguousarray(self._requantize.table).view(np.uint8)
        return table[:1] if (table == table[0]).all() else table


def _conv_shape(layer: Conv | Dense, source: TensorType) -> dict[str, int]:
    """Sizes of the engine; a dense layer reads all elements as the channels of one pixel."""
    if isinstance(layer, Dense):
        elements = int(np.prod(source.shape))
        return {"H": 1, "W": 1, "C": elements, "K": 1, "STRIDE": 1, "TOP": 0, "LEFT": 0, "OUT_H": 1, "OUT_W": 1}
    height, width, channels = source.shape
    return {
        "H": height,
        "W": width,
        "C": channels,
        "K": layer.weights.shape[1],
        "STRIDE": layer.stride[0],
        "TOP": layer.padding[0],
        "LEFT": layer.padding[1],
        "OUT_H": layer.output.shape[0],
        "OUT_W": layer.output.shape[1],
    }


def _width(least: NDArray[np.int64], greatest: NDArray[np.int64]) -> int:
    """Bits of a two's complement that holds all of the bounds."""
    return Range(min(-1, int(least.min())), max(0, int(greatest.max()))).bits


def _pack(values: NDArray[np.uint8], bits: int) -> list[int]:
    """Rows of unsigned integers as one integer each, the first lowest."""
    spread = np.unpackbits(values[:, :, np.newaxis], axis=2, bitorder="little")[:, :, :bits]
    rows = np.packbits(spread.reshape(len(values), -1), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def _style(words: int, width: int) -> str:
    return "block" if words >= _BLOCK_WORDS or words * width >= _BLOCK_BITS else "distributed"
