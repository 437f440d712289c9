"""Launches of the global average pool and the dense layer, together or separately."""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import make_epilogue
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.cuda.plan.prediction import Phase, Work, busy_clocks
from edgemeta.kernels.lowering.requantization import product_accumulators, sum_accumulators
from edgemeta.kernels.lowering.steps import PoolDenseStep, Step
from edgemeta.model.layers import AveragePool, Dense, Shape

_WARP = 32
_MOST_WARPS = 16
_POOL_WARPS = 8
_TOGETHER = 8
"""Turns of a loop of the pool whose loads are under way together, as in kernel.cu."""


_TURN, _ENDS = 36, 50
"""Instructions of a turn of a dense layer's loop, and of all else that a lane does."""


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """The only candidate for a PoolDenseStep, on any architecture; none if the pool's sums exceed shared memory."""
    if isinstance(step, PoolDenseStep):
        threads = _WARP * _warps(step)
        if step.pool is None or _shared_bytes(step.pool.output.shape[2], threads) <= architecture.shared_bytes:
            yield Candidate("pool_dense", {"threads": threads}, NO_RING, partial(_launch, step, tensors, threads))


def predicted_clocks(step: Step, _tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of a dense layer alone; infinite for other steps.

    A turn of a lane loads and unpacks four inputs and four weights, and multiplies 32 bits: three XMAD where there is
    no IMAD, of which the count is for the slower ones.
    """
    if not isinstance(step, PoolDenseStep) or step.dense is None or step.pool is not None:
        return math.inf
    threads, (outputs, *rest) = _WARP * _warps(step), step.dense.weights.shape
    turns = -(-math.prod(rest) // (4 * _WARP))
    count, warps = turns * _TURN + _ENDS, threads // _WARP
    blocks = -(-outputs // warps)
    phase = Phase(blocks * warps * count, count, waits=turns + 1)
    return busy_clocks(Work(blocks, threads, 40, 0, (phase,)), architecture)


def _warps(step: PoolDenseStep) -> int:
    """One warp per output, but at least as many as the pool uses."""
    outputs = 0 if step.dense is None else step.dense.output.shape[2]
    return max(_POOL_WARPS if step.pool else 1, min(outputs, _MOST_WARPS))


def _launch(step: PoolDenseStep, tensors: Tensors, threads: int, buffers: Buffers) -> Launch:
    source, output = buffers[step.reads[0]], buffers[step.output.name]
    channels = source.kind.shape[2]
    defines: Defines = (("THREADS", threads), ("POOL", int(bool(step.pool))), ("DENSE", int(bool(step.dense))))
    read = source if step.pool else _as_lines(source)
    defines += (*_input_defines(read), *_output_defines(output))
    arguments: tuple[Argument, ...] = (source, output)
    loops: tuple[int, ...] = ()
    shared_bytes = 0
    if step.pool is not None:
        shared_bytes = _shared_bytes(channels, threads)
        constants, used = _pool(step.pool, tensors)
        arguments, defines = arguments + constants, defines + used
        loops += _pool_loops(source, threads)
        if step.dense is None:
            loops += (-(-_fours(channels) * 4 // threads),)
    if step.dense is not None:
        shape = step.pool.output.shape if step.pool else integer_type(read).shape
        constants, used = _dense(step.dense, tensors, shape)
        arguments, defines = arguments + constants, defines + used
        loops += (-(-dict(used)["DENSE_FOURS"] // _WARP),)
    blocks = -(-step.dense.output.shape[2] // (threads // _WARP)) if step.dense else 1
    return Launch(
        tuple(layer.name for layer in step.layers),
        Source("pool_dense/kernel.cu", "pool_dense", defines),
        (blocks, 1),
        (threads, 1, 1),
        arguments,
        shared_bytes,
        {"threads": threads},
        loops,
    )


def _input_defines(source: Buffer) -> Defines:
    height, width, channels = source.kind.shape
    return (("IN_H", height), ("IN_W", width), ("IN_C", channels), *tensor_defines("IN", source))


def _output_defines(output: Buffer) -> Defines:
    element = np.dtype(output.kind.dtype).itemsize
    return (("OUT_C", output.kind.shape[2]), ("OUT_ELEMENT", element), *tensor_defines("OUT", output))


def _pool(pool: AveragePool, tensors: Tensors) -> tuple[tuple[Argument, ...], Defines]:
    """Constants and defines of the pool."""
    sums = sum_accumulators(tensors.types[pool.input], pool.kernel[0] * pool.kernel[1])
    padded = 4 * _fours(pool.output.shape[2])
    finished = make_epilogue("POOL", pool.name, pool.requantize, pool.output, sums, padded)
    return (finished.channels, finished.table), finished.defines


def _as_lines(source: Buffer) -> Buffer:
    """The buffer as read by a dense layer: a packed one as a single pixel, since its elements are contiguous."""
    kind = integer_type(source)
    return replace(source, kind=replace(kind, shape=(1, 1, math.prod(kind.shape)))) if source.packed else source


def _dense(dense: Dense, tensors: Tensors, shape: Shape) -> tuple[tuple[Argument, ...], Defines]:
    """Constants and defines of the dense layer, whose input has `shape`."""
    weights = _packed_weights(dense, shape)
    line_fours = weights.shape[2] // 4
    values = {"DENSE_FOURS": weights.shape[1] * line_fours, "LINE_FOURS": line_fours, "WEIGHT_BYTES": weights.itemsize}
    sums = product_accumulators(dense, tensors.types[dense.input])
    finished = make_epilogue("DENSE", dense.name, dense.requantize, dense.output, sums, dense.output.shape[2])
    constants = (Constant(f"{dense.name}.weights", weights), finished.channels, finished.table)
    return constants, (*values.items(), *finished.defines)


def _packed_weights(dense: Dense, shape: Shape) -> NDArray[Any]:
    """Weights [O, H, W * C'] for an input [H, W, C], C' = C rounded up to a multiple of 4, in the narrowest type."""
    decoded = dense.weights.decode()
    height, width, channels = shape
    full = np.zeros((len(decoded), height, width, 4 * _fours(channels)), np.int32)
    full[..., :channels] = decoded.reshape(len(decoded), height, width, channels)
    lines = full.reshape(len(decoded), height, -1)
    for bits, narrow in ((8, np.int8), (16, np.int16)):
        if decoded.min() >= -(1 << bits - 1) and decoded.max() < 1 << bits - 1:
            return lines.astype(narrow)
    return lines


def _fours(channels: int) -> int:
    return -(-channels // 4)


def _shared_bytes(channels: int, threads: int) -> int:
    """Shared memory for the means and the partial sums of all slices."""
    fours = _fours(channels)
    return 16 * fours * (1 + max(threads // fours, 1))


def _pool_loops(source: Buffer, threads: int) -> tuple[int, ...]:
    """Trip counts: words { pixels together }, then channels { slices together }."""
    height, width, channels = source.kind.shape
    fours = _fours(channels)
    slices = max(threads // fours, 1)
    turns = -(-height * width // slices)
    return (
        -(-fours * slices // threads),
        -(-turns // min(turns, _TOGETHER)),
        -(-4 * fours // threads),
        -(-slices // min(slices, _TOGETHER)),
    )
