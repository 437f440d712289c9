"""Launches of Winograd convolutions, F(2x2, 3x3) at stride 1 and 2 and F(4x4, 3x3): steps, tiles, weight layout."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.direct import launch as direct
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import Epilogue, line_epilogue_of_multiples, make_epilogue, residual_defines
from edgemeta.kernels.cuda.plan.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.cuda.winograd.tile import Tile, tiles
from edgemeta.kernels.lowering.requantization import fold_clamps, product_accumulators
from edgemeta.kernels.lowering.steps import ConvStep, Step
from edgemeta.model.layers import Conv, Padding, TensorType
from edgemeta.model.winograd import F2, F2_STRIDED, F4, Transform, transform_weights

_TRANSFORMS = {(1, 1): (F4, F2), (2, 2): (F2_STRIDED,)}
"""Transforms by stride."""


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates by rule: those with a shorter predicted time than a direct convolution; the shortest first."""
    offers, limit = _offers(step, tensors, architecture), _limit(step, tensors, architecture)
    return [candidate for clocks, candidate in offers if clocks < limit]


def alternatives(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """All other candidates: for tuning, not by rule."""
    offers, limit = _offers(step, tensors, architecture), _limit(step, tensors, architecture)
    return [candidate for clocks, candidate in offers if clocks >= limit]


def predicted_clocks(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of the best tile by rule; infinite if there is none."""
    offers, limit = _offers(step, tensors, architecture), _limit(step, tensors, architecture)
    return min((clocks for clocks, _ in offers if clocks < limit), default=inf)


def _limit(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Clocks below which a candidate is better than a direct convolution; 0 if the latter has dp4a."""
    return 0.0 if architecture.dot4 else direct.predicted_clocks(step, tensors, architecture)


def _offers(step: Step, tensors: Tensors, architecture: Architecture) -> list[tuple[float, Candidate]]:
    """Predicted clocks and candidate, the shortest first."""
    if not isinstance(step, ConvStep) or not _fits(step, tensors):
        return []
    conv, source = step.conv, tensors.types[step.conv.input]
    offers: list[tuple[float, Candidate]] = []
    for transform in _TRANSFORMS[conv.stride]:
        if not is_exact(conv, source, transform):
            continue
        down, across = _tiles(conv, transform)
        ring = _ring(conv, source, transform)
        extra = transform.tile**2 if step.shortcut else 0
        channels, adds = source.shape[2], step.add is not None
        for clocks, tile in tiles(transform, extra, down * across, channels, _outputs(step), adds, architecture):
            launch = partial(_launch, step, tensors, transform, tile)
            offers.append((clocks, Candidate("winograd", asdict(tile), ring, launch)))
    return sorted(offers, key=lambda offer: offer[0])


def _fits(step: ConvStep, tensors: Tensors) -> bool:
    """A 3x3 convolution of stride 1 or 2 between buffers with rings, optionally with a shortcut that it supports."""
    conv = step.conv
    return (
        conv.weights.shape[1:3] == (3, 3)
        and conv.stride in _TRANSFORMS
        and conv.groups == 1
        and conv.requantize is not None
        and (step.shortcut is None or _takes(step.shortcut, conv))
        and tensors.packed.isdisjoint((*step.reads, *step.writes))
    )


def _takes(shortcut: Conv, conv: Conv) -> bool:
    """Whether the transform of stride 2 leaves the shortcut's pixels unchanged, and its weights are int16."""
    weights = shortcut.weights.decode()
    return (
        conv.stride == (2, 2)
        and conv.padding[:2] == (1, 1)
        and shortcut.requantize is not None
        and int(np.abs(weights).max()) <= np.iinfo(np.int16).max
    )


def _outputs(step: ConvStep) -> int:
    """Output channels of the convolution or its shortcut, whichever has more."""
    return max(each.output.shape[2] for each in (step.conv, step.shortcut) if each is not None)


def is_exact(conv: Conv, source: TensorType, transform: Transform) -> bool:
    """Whether transformed weights are int16, and every sum without the bias is in the transform's exact range."""
    transformed = transform_weights(conv.weights.decode().astype(np.int32), transform)
    sums = product_accumulators(conv, source)
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
    """Padding around the input for complete patches."""
    top, left, _, _ = conv.padding
    down, across = _tiles(conv, transform)
    height, width, _ = source.shape
    step = transform.tile * transform.stride
    bottom, right = (
        (down - 1) * step + transform.edge - height - top,
        (across - 1) * step + transform.edge - width - left,
    )
    return top, left, max(bottom, 0), max(right, 0)


def _launch(step: ConvStep, tensors: Tensors, transform: Transform, tile: Tile, buffers: Buffers) -> Launch:
    conv, source = step.conv, tensors.types[step.conv.input]
    down, across = _tiles(conv, transform)
    blocks = -(-_outputs(step) // tile.block_outputs)
    padded = blocks * tile.block_outputs
    main, divisor = _epilogue(step, source, padded, transform)
    written, read = buffers[step.output.name], buffers[conv.input]
    defines: Defines = (
        *_shape_defines(step, tensors, transform, tile),
        ("VECTORS", padded // tile.vector),
        ("ODD_INVERSE", pow(divisor, -1, 1 << 32)),
        *tensor_defines("IN", read),
        *tensor_defines("OUT", written),
        *main.defines,
        *residual_defines(step, tensors),
    )
    arguments: tuple[Argument, ...] = (
        read,
        Constant(f"{conv.name}.weights", pack_weights(step, transform, tile)),
        Constant(f"{conv.name}.constants", _constants(conv, source, transform, padded)),
        main.channels_by_vector(tile.vector),
        main.table,
        written,
    )
    if step.residual is not None:
        defines += tensor_defines("RESIDUAL", buffers[step.residual])
        arguments += (buffers[step.residual],)
    if step.shortcut is not None:
        beside = _shortcut_epilogue(step.shortcut, source, padded)
        defines += (*tensor_defines("BESIDE_OUT", buffers[step.shortcut.name]), *beside.defines)
        arguments += (beside.channels_by_vector(tile.vector), beside.table, buffers[step.shortcut.name])
    return Launch(
        layers=tuple(layer.name for layer in step.layers),
        source=Source("winograd/kernel.cu", "winograd", defines),
        grid=(-(-down * across // tile.block_tiles), blocks),
        block=(tile.threads, 1, 1),
        arguments=arguments,
        shared_bytes=tile.shared_bytes,
        tile=asdict(tile),
        loops=_loops(tile, -(-source.shape[2] // 4)),
    )


def _shape_defines(step: ConvStep, tensors: Tensors, transform: Transform, tile: Tile) -> Defines:
    conv = step.conv
    down, across = _tiles(conv, transform)
    values = {
        "TILE": transform.tile,
        "STRIDE": transform.stride,
        "SHIFT": transform.shift,
        "BESIDE": int(step.shortcut is not None),
        "TILES": down * across,
        "TILES_ACROSS": across,
        "THREAD_TILES": tile.thread_tiles,
        "THREAD_OUTPUTS": tile.thread_outputs,
        "BLOCK_TILES": tile.block_tiles,
        "BLOCK_OUTPUTS": tile.block_outputs,
        "CHUNK_QUADS": tile.chunk_quads,
        "CHUNKS": -(-tensors.types[conv.input].shape[2] // 4) // tile.chunk_quads,
        "UNROLL": tile.unroll,
        "PATCH_PAIRS": tile.patch_pairs,
        "VECTOR": tile.vector,
        "PAIR_PADDING": tile.pair_padding,
        "SUM_PADDING": tile.sum_padding,
        "PAD_TOP": conv.padding[0],
        "PAD_LEFT": conv.padding[1],
        "OUTPUT_HEIGHT": conv.output.shape[0],
        "OUTPUT_WIDTH": conv.output.shape[1],
    }
    return tuple(values.items())


def _epilogue(step: ConvStep, source: TensorType, padded: int, transform: Transform) -> tuple[Epilogue, int]:
    """Epilogue of odd * y + 2**(31-s), or of y + 2**(31-s) after a division; and the odd divisor."""
    conv, sums, shifted = step.conv, product_accumulators(step.conv, source), 1 << (31 - transform.shift)
    form = fold_clamps(conv.requantize, () if step.add else step.after)
    bias = _bias(conv)
    if transform.odd * max((sums.greatest - bias).max() + 1, (bias - sums.least).max()) <= shifted:
        multiples = replace(sums, start=transform.odd * bias - shifted)
        line = line_epilogue_of_multiples("MAIN", conv.name, form, conv.output, multiples, padded, transform.odd)
        if line is not None:
            return line, 1
    exact = replace(sums, start=bias - shifted)
    return make_epilogue("MAIN", conv.name, form, conv.output, exact, padded), transform.odd


def _shortcut_epilogue(shortcut: Conv, source: TensorType, padded: int) -> Epilogue:
    """Epilogue of the shortcut's sums of products."""
    sums = product_accumulators(shortcut, source)
    start = _bias(shortcut) - _zero_point(source) * _weight_sums(shortcut)
    return make_epilogue(
        "BESIDE", shortcut.name, shortcut.requantize, shortcut.output, replace(sums, start=start), padded
    )


def _loops(tile: Tile, quads: int) -> tuple[int, ...]:
    """Trip counts: chunks, patches per thread, pairs of channels, vectors of outputs per thread."""
    transformed = tile.block_tiles * tile.chunk_quads * 2 // tile.patch_pairs
    finished = tile.block_tiles * tile.block_outputs // tile.vector
    chunks = quads // tile.chunk_quads
    turns = tile.chunk_quads * 2 // tile.unroll - (chunks == 1)
    return chunks, -(-transformed // tile.threads), turns, -(-finished // tile.threads)


def pack_weights(step: ConvStep, transform: Transform, tile: Tile) -> NDArray[np.int16]:
    """int16 transformed weights in the order in which the threads read them, followed by those of the shortcut.

    [block of outputs, chunk, half of a quad, quad, product, output of the block, channel of the pair]: channels
    4 quad + 2 half + (0, 1) of the chunk.
    """
    transformed = transform_weights(step.conv.weights.decode().astype(np.int32), transform)
    outputs, channels = transformed.shape[:2]
    blocks, quads = -(-_outputs(step) // tile.block_outputs), -(-channels // 4)
    full = np.zeros((blocks * tile.block_outputs, quads * 4, tile.products), np.int16)
    full[:outputs, :channels, : tile.positions] = transformed.reshape(outputs, channels, -1)
    if step.shortcut is not None:
        weights = step.shortcut.weights.decode().reshape(-1, channels, 1)
        full[: len(weights), :channels, tile.positions :] = weights
    split = full.reshape(blocks, tile.block_outputs, -1, tile.chunk_quads, 2, 2, tile.products)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 6, 1, 5))


def _constants(conv: Conv, source: TensorType, transform: Transform, padded: int) -> NDArray[np.int32]:
    """Constants added to Y, modulo 2**32: the zero point's share, and 2**(31-s) to y, so that it is not negative."""
    sums = _weight_sums(conv)
    constants = np.zeros(padded, np.int64)
    constants[: len(sums)] = (1 << (31 - transform.shift)) - _zero_point(source) * sums
    multiple = (1 << transform.shift) * transform.odd
    return (constants * multiple).astype(np.uint64).astype(np.uint32).view(np.int32)


def _zero_point(source: TensorType) -> int:
    """Zero point of the bytes as read by the kernel: signed bytes are read as unsigned ones, 128 greater."""
    return source.zero_point + (128 if source.signed else 0)


def _weight_sums(conv: Conv) -> NDArray[np.int64]:
    """Sum of the weights of every output channel."""
    sums: NDArray[np.int64] = conv.weights.decode().astype(np.int64).sum(axis=(1, 2, 3))
    return sums
