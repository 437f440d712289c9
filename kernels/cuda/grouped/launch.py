"""Launches of convolutions with groups, with dilation, or with weights of more than 16 bits."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import conv_epilogue
from edgemeta.kernels.cuda.plan.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Launch, Source
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, Step
from edgemeta.model.layers import Conv

_THREADS = 128
_MOST_PIXELS = 4
_MOST_UNROLLED = 7
"""Widest kernel whose columns are unrolled."""


@dataclass(frozen=True)
class _Geometry:
    """How the channels of a convolution are divided into words of four.

    group_inputs, group_outputs: channels of a group. fours: words of all input channels. words: of the input channels
    that four adjacent output channels read, at most. is_diagonal: output channel c reads input channel c alone.
    bits: 8, if four products are one instruction, else 16 or 32.
    """

    group_inputs: int
    group_outputs: int
    fours: int
    words: int
    is_diagonal: bool
    bits: int

    def first_word(self, quad: int) -> int:
        """The first of the words that the output channels 4 * quad and the next three read."""
        return min(4 * quad // self.group_outputs * self.group_inputs // 4, self.fours - self.words)


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates with one, two or four pixels for a thread, for a convolution that is not a ConvStep."""
    if isinstance(step, LayerStep) and isinstance(step.layer, Conv):
        conv = step.layer
        geometry = _geometry(conv, tensors, architecture)
        for pixels in _pixels(conv, architecture):
            launch = partial(_launch, conv, tensors, geometry, pixels)
            yield Candidate("grouped", {"pixels": pixels}, conv.padding, launch)


def _geometry(conv: Conv, tensors: Tensors, architecture: Architecture) -> _Geometry:
    weights = conv.weights.decode()
    outputs, depth = weights.shape[0], weights.shape[3]
    filters = outputs // conv.groups
    fours = -(-tensors.types[conv.input].shape[2] // 4)
    spans = (_span(quad, filters, depth, outputs) for quad in range(-(-outputs // 4)))
    words = min(fours, max(last - first + 1 for first, last in spans))
    is_diagonal = depth == filters == 1 and conv.groups > 1
    return _Geometry(depth, filters, fours, words, is_diagonal, _bits(weights, is_diagonal, architecture))


def _span(quad: int, filters: int, depth: int, outputs: int) -> tuple[int, int]:
    """First and last word of the input channels that an output quad reads."""
    last_group = (min(4 * quad + 3, outputs - 1)) // filters
    return 4 * quad // filters * depth // 4, ((last_group + 1) * depth - 1) // 4


def _bits(weights: NDArray[np.int32], is_diagonal: bool, architecture: Architecture) -> int:
    least, greatest = int(weights.min()), int(weights.max())
    if least < -(1 << 15) or greatest >= 1 << 15:
        return 32
    return 8 if architecture.dot4 and not is_diagonal and least >= -128 and greatest <= 127 else 16


def _pixels(conv: Conv, architecture: Architecture) -> Iterator[int]:
    """Divisors of the output's width; the choice by rule is the greatest with a block for every multiprocessor."""
    height, width, channels = conv.output.shape
    fitting = [count for count in range(1, _MOST_PIXELS + 1) if width % count == 0]
    items = height * width * -(-channels // 4)
    wide = [count for count in fitting if items // count >= 2 * _THREADS * architecture.multiprocessors]
    best = max(wide, default=1)
    yield best
    yield from (count for count in fitting[::-1] if count != best)


def _launch(conv: Conv, tensors: Tensors, geometry: _Geometry, pixels: int, buffers: Buffers) -> Launch:
    source, output = buffers[conv.input], buffers[conv.name]
    height, width, channels = conv.output.shape
    quads = -(-channels // 4)
    rows, columns = conv.weights.shape[1:3]
    main = conv_epilogue("MAIN", ConvStep(conv), tensors, 4 * quads)
    values = {
        "THREADS": _THREADS,
        "PIXELS": pixels,
        "OUT_H": height,
        "OUT_W": width,
        "OUT_C": channels,
        "KERNEL_H": rows,
        "KERNEL_W": columns,
        "UNROLLED": columns if columns <= _MOST_UNROLLED else 1,
        "STRIDE_Y": conv.stride[0],
        "STRIDE_X": conv.stride[1],
        "DILATION_Y": conv.dilation[0],
        "DILATION_X": conv.dilation[1],
        "PAD_TOP": conv.padding[0],
        "PAD_LEFT": conv.padding[1],
        "GROUP_INPUTS": geometry.group_inputs,
        "GROUP_OUTPUTS": geometry.group_outputs,
        "GROUP_WORDS": geometry.words,
        "DIAGONAL": int(geometry.is_diagonal),
        "WEIGHT_BITS": geometry.bits,
        **_input_values(conv, source, geometry),
    }
    defines = (*values.items(), *tensor_defines("IN", source), *tensor_defines("OUT", output, 1), *main.defines)
    items = height * width // pixels * quads
    return Launch(
        (conv.name,),
        Source("grouped/kernel.cu", "grouped", defines),
        (-(-items // _THREADS), 1),
        (_THREADS, 1, 1),
        (source, Constant(f"{conv.name}.weights", _packed(conv, geometry)), main.channels, main.table, output),
        tile={"pixels": pixels},
        loops=(rows, geometry.words, 1 if columns <= _MOST_UNROLLED else columns),
    )


def _input_values(conv: Conv, source: Buffer, geometry: _Geometry) -> dict[str, int]:
    """Definitions for loading a pixel. A packed buffer has no ring, so padding is added while loading."""
    kind = integer_type(source)
    return {
        "IN_FOURS": geometry.fours,
        "IN_H": kind.shape[0],
        "IN_W": kind.shape[1],
        "IN_CHECKED": int(source.packed and any(conv.padding)),
        "IN_FILL": int(np.full(4, kind.zero_point & 0xFF, np.uint8).view(np.int32)[0]),
    }


def _packed(conv: Conv, geometry: _Geometry) -> NDArray[np.int32]:
    """Weights as words [output quad][kernel row][input word][kernel column][output of the quad][input of the word].

    Where a channel does not exist or is of another group the weight is 0. If every output reads one input, only the
    diagonal is stored: [output quad][kernel row][1][kernel column][channel].
    """
    weights = conv.weights.decode()
    outputs, rows, columns, depth = weights.shape
    quads = -(-outputs // 4)
    dense = np.zeros((quads, rows, columns, 4, 4 * geometry.words), np.int32)
    for o in range(outputs):
        quad = o // 4
        first = o // geometry.group_outputs * depth - 4 * geometry.first_word(quad)
        dense[quad, :, :, o % 4, first : first + depth] = weights[o]
    parts = dense.reshape(quads, rows, columns, 4, geometry.words, 4).transpose(0, 1, 4, 2, 3, 5)
    if geometry.is_diagonal:
        parts = np.diagonal(parts, axis1=4, axis2=5)
    narrow = {8: np.int8, 16: np.int16, 32: np.int32}[geometry.bits]
    return np.ascontiguousarray(parts, narrow).reshape(-1).view(np.int32)
