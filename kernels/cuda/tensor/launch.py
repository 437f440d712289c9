"""Launches of convolutions with int8 matrix instructions: steps, tiles, weight layout."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import conv_epilogue, residual_defines, shortcut_epilogue
from edgemeta.kernels.cuda.plan.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.steps import ConvStep, Step
from edgemeta.model.layers import Conv

_FIRST_ARCHITECTURE = 800
"""The instructions need sm_80. sm_72 also has int8 units, but only through wmma, whose layout is undocumented."""

_WARPS = 4
_SHAPES = ((2, 8), (2, 4), (2, 2), (1, 8), (1, 4), (1, 2))


@dataclass(frozen=True)
class Tile:
    """A warp computes 16 rows pixels of 8 columns channels; a lane reads `width` words of 4 channels at a time."""

    rows: int
    columns: int
    width: int

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

    def instructions(self, pixels: int, filters: int, taps: int) -> float:
        """Estimated warp-instructions of an image; taps: of the kernel, times groups of channels."""
        products = self.rows * self.columns * max(1, self.width // 2)
        loads = 2 * self.rows + self.columns * self.width / 4
        finish = 2 * self.rows * self.lane_filters * 6 + 40
        return -(-pixels // self.pixels) * -(-filters // self.filters) * _WARPS * (taps * (products + loads) + finish)


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates for convolutions with a multiple of 16 input channels and int8 weights; fewest instructions first."""
    if architecture.number < _FIRST_ARCHITECTURE or not isinstance(step, ConvStep) or not _fits(step, tensors):
        return
    conv = step.conv
    channels = tensors.types[conv.input].shape[2]
    width = next(width for width in (4, 2, 1) if channels % (16 * width) == 0)
    height, across, filters = conv.output.shape
    taps = int(np.prod(conv.weights.shape[1:3])) * channels // (16 * width)
    tiles = [Tile(rows, columns, width) for rows, columns in _SHAPES]
    for tile in sorted(tiles, key=lambda tile: tile.instructions(height * across, filters, taps)):
        yield Candidate("tensor", asdict(tile), conv.padding, partial(_launch, step, tensors, tile))


def _fits(step: ConvStep, tensors: Tensors) -> bool:
    """Whether all operands are bytes, in buffers with rings."""
    convs = [step.conv] if step.shortcut is None else [step.conv, step.shortcut]
    weights = [each.weights.decode() for each in convs]
    return (
        tensors.types[step.conv.input].shape[2] % 16 == 0
        and all(each.requantize is not None for each in convs)
        and all(each.min() >= -128 and each.max() <= 127 for each in weights)
        and tensors.packed.isdisjoint((*step.reads, *step.writes))
    )


def _launch(step: ConvStep, tensors: Tensors, tile: Tile, buffers: Buffers) -> Launch:
    conv = step.conv
    height, across, filters = conv.output.shape
    if step.shortcut is not None:
        filters = max(filters, step.shortcut.output.shape[2])
    grid = (-(-height * across // tile.pixels), -(-filters // tile.filters))
    padded = grid[1] * tile.filters
    source, output = buffers[conv.input], buffers[step.output.name]
    words = tile.lane_filters // 4
    main = conv_epilogue("MAIN", step, tensors, padded)
    defines: Defines = (
        *_shape_defines(step, tensors, tile),
        *tensor_defines("IN", source),
        *tensor_defines("OUT", output, words),
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
        defines += tensor_defines("RESIDUAL", buffers[step.residual], words)
        arguments += (buffers[step.residual],)
    if step.shortcut is not None:
        beside = shortcut_epilogue("BESIDE", step.shortcut, tensors, padded)
        target = buffers[step.shortcut.name]
        defines += (*beside.defines, *tensor_defines("BESIDE_OUT", target, words))
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


def _shape_defines(step: ConvStep, tensors: Tensors, tile: Tile) -> Defines:
    conv = step.conv
    height, across, _ = conv.output.shape
    values = {
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "WIDTH": tile.width,
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
    """int8 [block][kernel row][group][kernel column][piece][lane][word][channel]: the order in which lanes read.

    A lane's words are [n][i]: word i of its quad, channels 4 (width quad + i) and the next three of the group, for its
    column c = lane / 4 of the n-th matrix of 8 columns. That is channel (c / 2) 2 columns + 2 n + c % 2 of the block,
    so that a lane's sums are those of consecutive channels. A piece is the 4 (or 2) words that it reads at once.
    """
    weights = conv.weights.decode()
    filters, height, across, channels = weights.shape
    full = np.zeros((padded, height, across, channels), np.int8)
    full[:filters] = weights
    # [block, c / 2, n, c % 2, kernel row, kernel column, group, quad, i, channel]
    split = full.reshape(
        -1, 4, tile.columns, 2, height, across, channels // (16 * tile.width), 4, tile.width, 4
    ).transpose(0, 4, 6, 5, 1, 3, 7, 2, 8, 9)
    # [block, kernel row, group, kernel column, lane, words]
    lanes = split.reshape(*split.shape[:4], 32, -1)
    piece = 16 if lanes.shape[-1] % 16 == 0 else 8
    pieces = lanes.reshape(*lanes.shape[:5], -1, piece).transpose(0, 1, 2, 3, 5, 4, 6)
    return np.ascontiguousarray(pieces)
