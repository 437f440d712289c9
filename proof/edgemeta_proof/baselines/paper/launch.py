"""Launches of the paper's kernels: supported steps, geometry, and constants.

`KERNELS` is the network of the paper's table 2: Winograd for every 3x3 convolution with stride 1, the simple
convolution otherwise. `BASELINE` is the comparison in table 1: the tiled simple convolution instead of Winograd.
`AS_PRINTED` and `BASELINE_AS_PRINTED` are the same with Algorithm 1 in one group of all filters, for counting.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, TypeGuard

import numpy as np

from edgemeta.kernels.cuda.elementwise import launch as elementwise
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import Epilogue, residual_defines
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Kernel, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.cuda.pool_dense import launch as pool_dense
from edgemeta.kernels.lowering.requantization import product_accumulators
from edgemeta.kernels.lowering.steps import ConvStep, Step
from edgemeta.model.fixedpoint import INT32_MAX
from edgemeta.model.layers import Conv, Padding
from edgemeta_proof.baselines.paper.epilogue import paper_epilogue
from edgemeta_proof.baselines.paper.weights import (
    WARP,
    Packed,
    Padded,
    by_map,
    by_tap,
    narrow,
    padded_sizes,
    transformed,
)
from edgemeta_proof.baselines.source import baseline_source

_THREADS = 256
_MOST_THREADS = 1024
_MOST_CHUNK = 16
_STATIC_SHARED = 48 << 10
_SCALE_BITS = 2
"""F(2x2) computes 4 times the sums."""

_Make: TypeAlias = Callable[[ConvStep, Tensors, Buffers], Launch]


def winograd_candidates(
    step: Step, tensors: Tensors, _: Architecture, /, most_lanes: int = WARP
) -> Iterator[Candidate]:
    """F(2x2, 3x3) for 3x3 with stride 1, if weights are int8 and 4 times the sums are within int32."""
    if not _is_tiled(step):
        return
    conv = step.conv
    weights, sums = conv.weights.decode(), product_accumulators(conv, tensors.types[conv.input])
    greatest = max(int(np.abs(each).max()) for each in (sums.least, sums.greatest, sums.start))
    padded = padded_sizes(weights.shape[3], weights.shape[0], most_lanes)
    shared = 16 * (padded.channels * 3 + padded.filters * 4)
    # |sum of products| <= |acc| + |start|
    if np.abs(weights).max() <= 128 and greatest << (_SCALE_BITS + 1) <= INT32_MAX and shared <= _STATIC_SHARED:
        yield _candidate("winograd", step, tensors, partial(_winograd, padded))


def tiled_candidates(step: Step, tensors: Tensors, _: Architecture, /, most_lanes: int = WARP) -> Iterator[Candidate]:
    """The simple convolution in the Winograd kernel's tiles."""
    if not _is_tiled(step):
        return
    padded = padded_sizes(step.conv.weights.shape[3], step.conv.weights.shape[0], most_lanes)
    if 16 * (padded.channels + padded.filters) <= _STATIC_SHARED:
        yield _candidate("tiled", step, tensors, partial(_tiled, padded))


def map_candidates(step: Step, tensors: Tensors, _: Architecture) -> Iterator[Candidate]:
    """The simple convolution, one block per map, including the maps of the shortcut."""
    if not isinstance(step, ConvStep):
        return
    rows, columns, channels = step.conv.weights.shape[1:]
    if rows * columns * (channels + 3) * np.dtype(np.int16).itemsize <= _STATIC_SHARED:
        yield _candidate("map", step, tensors, _map)


KERNELS: tuple[Kernel, ...] = (winograd_candidates, map_candidates, pool_dense.candidates, elementwise.candidates)
BASELINE: tuple[Kernel, ...] = (tiled_candidates, *KERNELS[1:])
AS_PRINTED: tuple[Kernel, ...] = (partial(winograd_candidates, most_lanes=_THREADS), *KERNELS[1:])
BASELINE_AS_PRINTED: tuple[Kernel, ...] = (partial(tiled_candidates, most_lanes=_THREADS), *KERNELS[1:])


def _is_tiled(step: Step) -> TypeGuard[ConvStep]:
    if not isinstance(step, ConvStep) or step.shortcut is not None or step.conv.requantize is None:
        return False
    return step.conv.weights.shape[1:3] == (3, 3) and step.conv.stride == (1, 1)


def _candidate(name: str, step: ConvStep, tensors: Tensors, make: _Make) -> Candidate:
    conv = step.conv
    ring = NO_RING if conv.input in tensors.packed else _ring(conv, tensors, 1 if name == "map" else 2)
    return Candidate(f"paper/{name}", {}, ring, lambda buffers: make(step, tensors, buffers))


def _ring(conv: Conv, tensors: Tensors, tile: int) -> Padding:
    """Padding around the input for complete tiles of outputs."""
    top, left, _, _ = conv.padding
    below = [
        max(0, (-(-outputs // tile) * tile - 1) * stride + kernel - before - size)
        for outputs, stride, kernel, before, size in zip(
            conv.output.shape[:2],
            conv.stride,
            conv.weights.shape[1:3],
            (top, left),
            tensors.types[conv.input].shape[:2],
            strict=True,
        )
    ]
    return top, left, below[0], below[1]


def _winograd(padded: Padded, step: ConvStep, tensors: Tensors, buffers: Buffers) -> Launch:
    weights = transformed(step.conv.weights.decode(), padded)
    outputs = step.conv.output.shape[2]
    loops = tuple(-(-items // _THREADS) for items in (padded.channels, 16 * padded.filters, outputs))
    return _tile_launch("winograd", padded, step, tensors, buffers, weights, _SCALE_BITS, _THREADS, loops)


def _tiled(padded: Padded, step: ConvStep, tensors: Tensors, buffers: Buffers) -> Launch:
    weights = by_tap(step.conv.weights.decode(), padded)
    threads = min(_THREADS, 4 * padded.filters)
    loops = (-(-4 * padded.filters // threads), 3)
    return _tile_launch("tiled", padded, step, tensors, buffers, weights, 0, threads, loops)


def _tile_launch(
    name: str,
    padded: Padded,
    step: ConvStep,
    tensors: Tensors,
    buffers: Buffers,
    weights: Packed,
    scale_bits: int,
    threads: int,
    loops: tuple[int, ...],
) -> Launch:
    conv = step.conv
    end = paper_epilogue("MAIN", conv, tensors, padded.filters, scale_bits, () if step.add else step.after)
    height, width, _ = conv.output.shape
    defines = {
        "THREADS": threads,
        "CHANNELS": padded.channels,
        "FILTERS": padded.filters,
        "LANES": padded.lanes,
    }
    shuffled = Constant(f"{conv.name}.{name}", weights)
    arguments: list[Argument] = [buffers[conv.input], shuffled, end.channels, end.table]
    arguments += _residual(step, buffers)
    return Launch(
        tuple(layer.name for layer in step.layers),
        baseline_source(
            f"baselines/paper/{name}.cu",
            f"paper_{name}",
            (*defines.items(), *_defines(step, tensors, buffers, weights, end)),
        ),
        (-(-height // 2) * -(-width // 2), 1),
        (threads, 1, 1),
        (*arguments, buffers[step.output.name]),
        loops=loops,
    )


def _map(step: ConvStep, tensors: Tensors, buffers: Buffers) -> Launch:
    conv, shortcut, source = step.conv, step.shortcut, buffers[step.conv.input]
    outputs, kernel_y, kernel_x, _ = conv.weights.shape
    channels = source.shape[2]
    chunk = next(size for size in range(_MOST_CHUNK, 0, -1) if channels % size == 0)
    pixels = conv.output.shape[0] * conv.output.shape[1]
    threads = min(pixels, _MOST_THREADS)
    every = [by_map(each.weights.decode(), channels) for each in (conv, shortcut) if each is not None]
    weights = narrow(np.concatenate([each.ravel() for each in every]))
    end = paper_epilogue("MAIN", conv, tensors, outputs, 0, () if step.add else step.after)
    defines = {
        "THREADS": threads,
        "CHANNELS": channels,
        "CHUNK": chunk,
        "KERNEL_Y": kernel_y,
        "KERNEL_X": kernel_x,
        "STRIDE_Y": conv.stride[0],
        "STRIDE_X": conv.stride[1],
        "BESIDE_OUTPUTS": 0 if shortcut is None else shortcut.output.shape[2],
    }
    own = Constant(f"{conv.name}.map", weights[: every[0].size].reshape(every[0].shape))
    arguments: list[Argument] = [source, own, end.channels, end.table, *_residual(step, buffers)]
    extra: Defines = ()
    if shortcut is not None:
        beside, target = paper_epilogue("BESIDE", shortcut, tensors, shortcut.output.shape[2]), buffers[shortcut.name]
        extra = (*beside.defines, *tensor_defines("BESIDE_OUT", target), ("BESIDE_FIRST", _first(shortcut, source)))
        extra += (("BESIDE_TABLE_ROW", _table_row(beside)),)
        constant = Constant(f"{shortcut.name}.map", weights[every[0].size :].reshape(every[1].shape))
        arguments += [constant, beside.channels, beside.table, target]
    return Launch(
        tuple(layer.name for layer in step.layers),
        baseline_source(
            "baselines/paper/map.cu",
            "paper_map",
            (*defines.items(), *_defines(step, tensors, buffers, weights, end), *extra),
        ),
        (outputs + defines["BESIDE_OUTPUTS"], -(-pixels // threads)),
        (threads, 1, 1),
        (*arguments, buffers[step.output.name]),
        loops=(channels // chunk,) * (1 if shortcut is None else 2),
    )


def _residual(step: ConvStep, buffers: Buffers) -> list[Argument]:
    return [] if step.residual is None else [buffers[step.residual]]


def _defines(
    step: ConvStep, tensors: Tensors, buffers: Mapping[str, Buffer], weights: Packed, end: Epilogue
) -> Defines:
    """Definitions of tensors, weights and outputs for all three kernels."""
    conv, source = step.conv, buffers[step.conv.input]
    height, width, outputs = conv.output.shape
    rows, columns, _ = source.kind.shape
    own = {
        "WEIGHT_BYTES": weights.itemsize,
        "OUTPUTS": outputs,
        "OUT_H": height,
        "OUT_W": width,
        "TABLE_ROW": _table_row(end),
        "IN_FIRST": _first(conv, source),
        "PADS": int(source.packed),
        "IN_H": rows,
        "IN_W": columns,
        "IN_ZERO": integer_type(source).zero_point,
        "PAD_TOP": conv.padding[0],
        "PAD_LEFT": conv.padding[1],
    }
    defines: Defines = (*own.items(), *end.defines, *residual_defines(step, tensors), *tensor_defines("IN", source))
    defines += tensor_defines("OUT", buffers[step.output.name])
    return defines if step.residual is None else defines + tensor_defines("RESIDUAL", buffers[step.residual])


def _first(conv: Conv, source: Buffer) -> int:
    """Index of the first tap of output (0, 0); without a ring, relative to the image's corner."""
    if source.packed:
        return 0
    values = dict(tensor_defines("IN", source))
    return values["IN_START"] - conv.padding[0] * values["IN_ROW"] - conv.padding[1] * values["IN_PIXEL"]


def _table_row(end: Epilogue) -> int:
    """Bytes from one channel's table to the next, 0 without tables."""
    return 256 if len(end.table.data) > 1 else 0
