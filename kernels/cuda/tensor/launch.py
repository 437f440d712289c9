"""Launches of convolutions with int8 or int4 matrix instructions: steps, tiles, weight layout."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import conv_epilogue, residual_defines, shortcut_epilogue
from edgemeta.kernels.cuda.plan.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.cuda.plan.prediction import Phase, Work, busy_clocks
from edgemeta.kernels.lowering.steps import ConvStep, Step
from edgemeta.model.layers import Conv

_FIRST_ARCHITECTURE = 800
"""The instructions need sm_80. sm_72 also has int8 units, but only through wmma, whose layout is undocumented."""

_WARPS = 4
_REGISTERS = 128
"""Of a thread, about, for the predicted time."""

_SHAPES = ((2, 8), (2, 4), (2, 2), (1, 8), (1, 4), (1, 2))


@dataclass(frozen=True)
class Tile:
    """A warp computes 16 rows pixels of 8 columns channels; a lane reads `width` words of 4 channels at a time.

    bits: of the matrix instructions' operands, 8 or 4.
    """

    rows: int
    columns: int
    width: int
    bits: int

    @property
    def pixels(self) -> int:
        """Pixels of a block."""
        return 16 * self.rows * _WARPS

    @property
    def filters(self) -> int:
        """Output channels of a block."""
        return 8 * self.columns

    @property
    def lane_filters(self) -> int:
        """Consecutive output channels of a lane."""
        return 2 * self.columns

    @property
    def operands(self) -> int:
        """Registers that hold a lane's words of a pixel for the matrix instructions."""
        return self.width * self.bits // 8

    def instructions(self, pixels: int, filters: int, taps: int, signed: bool) -> float:
        """Estimated warp-instructions of an image; taps: of the kernel, times groups of channels; signed: the input.

        A matrix instruction reads the words of its two rows of pixels from adjacent registers. Bytes are moved there,
        one word after another, unless each is loaded on its own (width 1). Nibbles are made there of two words, with
        one instruction, or two if they have signs.
        """
        products = self.rows * self.columns * max(1, self.operands // 2)
        loads = 2 * self.rows + self.columns * self.operands / 4
        moves = 2 * self.rows * self.operands * (1 + signed if self.bits == 4 else self.width > 1)
        finish = 2 * self.rows * self.lane_filters * 6 + 40
        blocks = -(-pixels // self.pixels) * -(-filters // self.filters)
        return blocks * _WARPS * (taps * (products + loads + moves) + finish)


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates for convolutions of bytes with a multiple of 16 channels, of nibbles of 32; fewest instructions first.

    Which of both comes first is predicted, too: by the estimate for their tiles.
    """
    if architecture.number < _FIRST_ARCHITECTURE or not isinstance(step, ConvStep):
        return
    widths = _operand_bits(step, tensors, architecture)
    if not widths:
        return
    conv, source = step.conv, tensors.types[step.conv.input]
    channels = source.shape[2]
    width = next(width for width in (4, 2, 1) if channels % (16 * width) == 0)
    height, across, filters = conv.output.shape
    taps = int(np.prod(conv.weights.shape[1:3])) * channels // (16 * width)
    tiles = [Tile(*shape, width, bits) for bits in widths for shape in _SHAPES]
    for tile in sorted(tiles, key=lambda tile: tile.instructions(height * across, filters, taps, source.signed)):
        launch = partial(_launch, step, tensors, tile)
        yield Candidate("tensor", asdict(tile), conv.padding, launch, _nibbles(step, tensors, tile))


def predicted_clocks(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of the choice by rule, from its instructions alone; infinite if there is none."""
    first = next(iter(candidates(step, tensors, architecture)), None)
    if first is None or not isinstance(step, ConvStep):
        return inf
    tile, (height, across, filters) = Tile(**first.tile), step.conv.output.shape
    source = tensors.types[step.conv.input]
    taps = int(np.prod(step.conv.weights.shape[1:3])) * source.shape[2] // (16 * tile.width)
    blocks = -(-height * across // tile.pixels) * -(-filters // tile.filters)
    count = tile.instructions(height * across, filters, taps, source.signed)
    phase = Phase(count, count / (blocks * _WARPS), waits=1)
    return busy_clocks(Work(blocks, 32 * _WARPS, _REGISTERS, 0, (phase,)), architecture)


def _nibbles(step: ConvStep, tensors: Tensors, tile: Tile) -> frozenset[str]:
    """Tensors that may be nibbles: the input of int4 operands, and others of which lanes access whole words."""
    types, others = tensors.types, {step.residual, *step.writes}
    return frozenset(
        name
        for name in (*step.reads, *step.writes)
        if types[name].bits <= 4
        and types[name].shape[2] % 8 == 0
        and (name != step.conv.input or tile.bits == 4)
        and (name not in others or tile.lane_filters % 8 == 0)
    )


def _operand_bits(step: ConvStep, tensors: Tensors, architecture: Architecture) -> tuple[int, ...]:
    """Widths of the operands that hold the input and all weights; none for buffers without rings."""
    convs = [step.conv] if step.shortcut is None else [step.conv, step.shortcut]
    weights = [each.weights.decode() for each in convs]
    least, greatest = min(each.min() for each in weights), max(each.max() for each in weights)
    source = tensors.types[step.conv.input]
    if (
        source.shape[2] % 16
        or any(each.requantize is None for each in convs)
        or not (least >= -128 and greatest <= 127)
        or not tensors.packed.isdisjoint((*step.reads, *step.writes))
    ):
        return ()
    is_narrow = source.shape[2] % 32 == 0 and source.bits <= 4 and least >= -8 and greatest <= 7
    return (8, 4) if architecture.tensor_int4 and is_narrow else (8,)


def _launch(step: ConvStep, tensors: Tensors, tile: Tile, buffers: Buffers) -> Launch:
    conv = step.conv
    height, across, filters = conv.output.shape
    if step.shortcut is not None:
        filters = max(filters, step.shortcut.output.shape[2])
    grid = (-(-height * across // tile.pixels), -(-filters // tile.filters))
    padded = grid[1] * tile.filters
    source, output = buffers[conv.input], buffers[step.output.name]
    main = conv_epilogue("MAIN", step, tensors, padded)
    defines: Defines = (
        *_shape_defines(step, tensors, tile),
        *tensor_defines("IN", source),
        *_written_defines("OUT", output, tile),
        *main.defines,
        *residual_defines(step, tensors),
    )
    arguments: tuple[Argument, ...] = (
        source,
        Constant(f"{conv.name}.weights", pack_weights(conv, tile, padded)),
        main.channels,
        main.table,
        output,
    )
    if step.residual is not None:
        defines += _written_defines("RESIDUAL", buffers[step.residual], tile)
        arguments += (buffers[step.residual],)
    if step.shortcut is not None:
        beside = shortcut_epilogue("BESIDE", step.shortcut, tensors, padded)
        target = buffers[step.shortcut.name]
        defines += (*beside.defines, *_written_defines("BESIDE_OUT", target, tile))
        packed = Constant(f"{step.shortcut.name}.weights", pack_weights(step.shortcut, tile, padded))
        arguments += (packed, beside.channels, beside.table, target)
    return Launch(
        layers=tuple(layer.name for layer in step.layers),
        source=Source("tensor/kernel.cu", "tensor", defines),
        grid=grid,
        block=(32 * _WARPS, 1, 1),
        arguments=arguments,
        tile=asdict(tile),
        loops=_loops(step, tensors, tile),
    )


def _written_defines(prefix: str, buffer: Buffer, tile: Tile) -> Defines:
    """Of a tensor whose channels a lane accesses as it has them."""
    return tensor_defines(prefix, buffer, tile.lane_filters // (8 if buffer.nibbles else 4))


def _shape_defines(step: ConvStep, tensors: Tensors, tile: Tile) -> Defines:
    conv = step.conv
    height, across, _ = conv.output.shape
    values = {
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "WIDTH": tile.width,
        "OPERAND_BITS": tile.bits,
        "WARPS": _WARPS,
        "CHANNELS": tensors.types[conv.input].shape[2],
        "KERNEL_H": conv.weights.shape[1],
        "KERNEL_W": conv.weights.shape[2],
        "STRIDE_Y": conv.stride[0],
        "STRIDE_X": conv.stride[1],
        "PAD_TOP": conv.padding[0],
        "PAD_LEFT": conv.padding[1],
        "OUT_H": height,
        "OUT_W": across,
        "OUT_CHECKED": int(height * across % tile.pixels != 0),
        "BESIDE": int(step.shortcut is not None),
    }
    return tuple(values.items())


def _loops(step: ConvStep, tensors: Tensors, tile: Tile) -> tuple[int, ...]:
    """Trip counts: kernel rows { groups of channels }, and the groups of the shortcut."""
    groups = tensors.types[step.conv.input].shape[2] // (16 * tile.width)
    main = (step.conv.weights.shape[1], groups)
    return main if step.shortcut is None else (*main, groups)


def pack_weights(conv: Conv, tile: Tile, padded: int) -> NDArray[np.int8]:
    """int8 [block][kernel row][group][kernel column][piece][lane][word][byte]: the order in which lanes read.

    A lane's words are [n][i]: operand i of its quad for its column c = lane / 4 of the n-th matrix of 8 columns. That
    is channel (c / 2) 2 columns + 2 n + c % 2 of the block, so that a lane's sums are those of consecutive channels.
    With 8 bits operand i has input channels 4 (width quad + i) and the next three of the group. With 4 bits byte b has
    those of byte b of the words 2 i and 2 i + 1 of 8 bits, the first one in the lower nibble. A piece is the 4 (or 2)
    words that a lane reads at once.
    """
    weights = conv.weights.decode()
    filters, height, across, channels = weights.shape
    full = np.zeros((padded, height, across, channels), np.int8)
    full[:filters] = weights
    # [block, c / 2, n, c % 2, kernel row, kernel column, group, quad, word, byte]
    split = full.reshape(
        -1, 4, tile.columns, 2, height, across, channels // (16 * tile.width), 4, tile.width, 4
    ).transpose(0, 4, 6, 5, 1, 3, 7, 2, 8, 9)
    operands = split if tile.bits == 8 else split[..., 0::2, :] & 15 | split[..., 1::2, :] << 4
    # [block, kernel row, group, kernel column, lane, words]
    lanes = operands.reshape(*operands.shape[:4], 32, -1)
    piece = 16 if lanes.shape[-1] % 16 == 0 else 8
    pieces = lanes.reshape(*lanes.shape[:5], -1, piece).transpose(0, 1, 2, 3, 5, 4, 6)
    return np.ascontiguousarray(pieces)
