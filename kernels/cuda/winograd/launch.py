"""Winograd convolutions F(2x2, 3x3) and F(4x4, 3x3): which steps, which tiles, how weights lie in memory."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda import requantize
from edgemeta.kernels.cuda.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.layout import tensor_defines
from edgemeta.kernels.cuda.plan import Architecture, Constant, Launch, Source
from edgemeta.kernels.cuda.requantize import Defines, Sums
from edgemeta.kernels.cuda.steps import ConvStep, Step
from edgemeta.kernels.cuda.winograd.tile import Tile, tiles
from edgemeta.model.layers import Conv, Padding, TensorType
from edgemeta.model.winograd import F2, F4, Transform, transform_weights


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Offers where 16-bit multiply-adds are the fastest there are; fewest instructions first."""
    return () if architecture.dot4 else _offers(step, tensors, architecture)


def alternatives(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """The same offers where four int8 products in one instruction do with fewer: for tuning, not by rule."""
    return _offers(step, tensors, architecture) if architecture.dot4 else ()


def _offers(step: Step, tensors: Tensors, architecture: Architecture) -> list[Candidate]:
    if not isinstance(step, ConvStep) or not _fits(step, tensors):
        return []
    offers: list[tuple[float, Candidate]] = []
    for transform in (F4, F2):
        if not is_exact(step.conv, tensors.types[step.conv.input], transform):
            continue
        down, across = _tiles(step.conv, transform)
        channels, outputs = tensors.types[step.conv.input].shape[2], step.conv.output.shape[2]
        for cost, tile in tiles(transform.tile, down * across, channels, outputs, architecture):
            ring = _ring(step.conv, tensors.types[step.conv.input], transform)
            launch = partial(_launch, step, tensors, transform, tile)
            offers.append((cost, Candidate("winograd", asdict(tile), ring, launch)))
    offers.sort(key=lambda offer: offer[0])
    return [candidate for _, candidate in offers]


def _fits(step: ConvStep, tensors: Tensors) -> bool:
    """A 3x3 convolution of stride 1 between ringed buffers, with nothing beside it."""
    conv = step.conv
    return (
        conv.weights.shape[1:3] == (3, 3)
        and conv.stride == (1, 1)
        and conv.groups == 1
        and conv.requantize is not None
        and step.shortcut is None
        and tensors.packed.isdisjoint((*step.reads, *step.writes))
    )


def is_exact(conv: Conv, source: TensorType, transform: Transform) -> bool:
    """Transformed weights are int16, and every sum without the bias is in the range that the transform gives back."""
    transformed = transform_weights(conv.weights.decode().astype(np.int32), transform)
    sums = requantize.weighted_sums(conv, source)
    bias = _bias(conv)
    limit = 1 << (31 - transform.shift)
    return bool(
        np.abs(transformed).max() <= np.iinfo(np.int16).max
        and (sums.least - bias).min() >= -limit
        and (sums.greatest - bias).max() < limit
    )


def _bias(conv: Conv) -> NDArray[np.int64]:
    channels = conv.weights.shape[0]
    return np.zeros(channels, np.int64) if conv.bias is None else conv.bias.astype(np.int64)


def _tiles(conv: Conv, transform: Transform) -> tuple[int, int]:
    """Tiles down and across one image."""
    height, width, _ = conv.output.shape
    return -(-height // transform.tile), -(-width // transform.tile)


def _ring(conv: Conv, source: TensorType, transform: Transform) -> Padding:
    """Padding that whole tiles need around the input."""
    top, left, _, _ = conv.padding
    down, across = _tiles(conv, transform)
    height, width, _ = source.shape
    return top, left, down * transform.tile + 2 - height - top, across * transform.tile + 2 - width - left


def _launch(step: ConvStep, tensors: Tensors, transform: Transform, tile: Tile, buffers: Buffers) -> Launch:
    conv, source = step.conv, tensors.types[step.conv.input]
    down, across = _tiles(conv, transform)
    channels, outputs = source.shape[2], conv.output.shape[2]
    quads = -(-channels // 4)
    blocks = -(-outputs // tile.block_outputs)
    padded = blocks * tile.block_outputs
    sums = requantize.weighted_sums(conv, source)
    start = _bias(conv) - (1 << (31 - transform.shift))
    clamps = () if step.add else step.after
    finish = requantize.finish(
        "MAIN",
        conv.name,
        requantize.clamped(conv.requantize, clamps),
        conv.output,
        Sums(start, sums.least, sums.greatest),
        padded,
    )
    written, read = buffers[step.output.name], buffers[conv.input]
    other = None if step.residual is None else buffers[step.residual]
    defines: Defines = (
        ("TILE", transform.tile),
        ("SHIFT", transform.shift),
        ("ODD_INVERSE", pow(transform.odd, -1, 1 << 32)),
        ("TILES", down * across),
        ("TILES_ACROSS", across),
        ("THREAD_TILES", tile.thread_tiles),
        ("THREAD_OUTPUTS", tile.thread_outputs),
        ("BLOCK_TILES", tile.block_tiles),
        ("BLOCK_OUTPUTS", tile.block_outputs),
        ("CHUNK_QUADS", tile.chunk_quads),
        ("CHUNKS", quads // tile.chunk_quads),
        ("UNROLL", tile.unroll),
        ("VECTOR", tile.vector),
        ("PAIR_PADDING", tile.pair_padding),
        ("SUM_PADDING", tile.sum_padding),
        ("PAD_TOP", conv.padding[0]),
        ("PAD_LEFT", conv.padding[1]),
        *tensor_defines("IN", read),
        *tensor_defines("OUT", written),
        ("OUTPUT_HEIGHT", conv.output.shape[0]),
        ("OUTPUT_WIDTH", conv.output.shape[1]),
        *(tensor_defines("RESIDUAL", other) if other is not None else ()),
        *finish.defines,
        *requantize.residual(step, tensors),
        ("TABLE_BYTES", 256 if len(finish.table.data) > 1 else 0),
    )
    return Launch(
        layers=tuple(layer.name for layer in step.layers),
        source=Source("winograd/kernel.cu", "winograd", defines),
        grid=(-(-down * across // tile.block_tiles), blocks),
        block=(tile.threads, 1, 1),
        arguments=(
            read,
            Constant(f"{conv.name}.weights", pack_weights(conv, transform, tile)),
            Constant(f"{conv.name}.constants", _constants(conv, source, transform, padded)),
            finish.channels,
            finish.table,
            written,
            *(() if other is None else (other,)),
        ),
        shared_bytes=tile.shared_bytes,
        tile={"tile": transform.tile} | asdict(tile),
        loops=_loops(tile, quads),
    )


def _loops(tile: Tile, quads: int) -> tuple[int, ...]:
    """Chunks, tiles times quads over the threads, pairs of channels, vectors of outputs over the threads."""
    transformed = tile.block_tiles * tile.chunk_quads
    finished = tile.block_tiles * tile.block_outputs // tile.vector
    chunks = quads // tile.chunk_quads
    turns = tile.chunk_quads * 2 // tile.unroll - (chunks == 1)
    return chunks, -(-transformed // tile.threads), turns, -(-finished // tile.threads)


def pack_weights(conv: Conv, transform: Transform, tile: Tile) -> NDArray[np.int16]:
    """int16 transformed weights in the order in which the threads read them.

    [block of outputs, chunk, half of a quad, quad, position, output of the block, channel of the pair]: channels
    4 quad + 2 half + (0, 1) of the chunk.
    """
    transformed = transform_weights(conv.weights.decode().astype(np.int32), transform)
    outputs, channels = transformed.shape[:2]
    blocks, quads = -(-outputs // tile.block_outputs), -(-channels // 4)
    full = np.zeros((blocks * tile.block_outputs, quads * 4, tile.positions), np.int16)
    full[:outputs, :channels] = transformed.reshape(outputs, channels, -1)
    split = full.reshape(blocks, tile.block_outputs, -1, tile.chunk_quads, 2, 2, tile.positions)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 6, 1, 5))


def _constants(conv: Conv, source: TensorType, transform: Transform, padded: int) -> NDArray[np.int32]:
    """What is added to Y, modulo 2**32: the zero point's share, and 2**(31-s) to y, which keeps it from below 0.

    The kernel reads signed bytes as unsigned ones, 128 greater.
    """
    zero_point = source.zero_point + (128 if source.signed else 0)
    weights = conv.weights.decode().reshape(conv.weights.shape[0], -1).astype(np.int64)
    constants = np.zeros(padded, np.int64)
    constants[: len(weights)] = -zero_point * weights.sum(axis=1) + (1 << (31 - transform.shift))
    multiple = (1 << transform.shift) * transform.odd
    return (constants * multiple).astype(np.uint64).astype(np.uint32).view(np.int32)
