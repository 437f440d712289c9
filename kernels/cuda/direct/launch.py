"""Launches of the direct convolution: any kernel, stride and padding, one group, with an optional shortcut."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.direct.fields import packed_filters, possible_fields
from edgemeta.kernels.cuda.direct.tiles import (
    AHEAD,
    Geometry,
    Layout,
    Tile,
    block_words,
    blocks,
    layout,
    passes,
    patch_loop,
    tiles,
    together,
    work,
)
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import conv_epilogue, residual_defines, shortcut_epilogue
from edgemeta.kernels.cuda.plan.kernel import Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.cuda.plan.prediction import busy_clocks
from edgemeta.kernels.lowering.steps import ConvStep, Step
from edgemeta.model.layers import Conv

_CANDIDATES = 8
"""Number of tiles that tuning tries, out of a few hundred."""

_PLANES_UNROLLED = 2


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates with the best tiles, for any ConvStep."""
    if not isinstance(step, ConvStep):
        return
    offers = [
        (busy_clocks(work(geometry, tile), architecture), tile, geometry)
        for geometry in _geometries(step, tensors, architecture)
        for tile in tiles(geometry, architecture)[:_CANDIDATES]
    ]
    for _, tile, geometry in sorted(offers, key=lambda offer: offer[0])[:_CANDIDATES]:
        launch = partial(_launch, step, tensors, geometry, tile)
        yield Candidate("direct", _parameters(geometry, tile), step.conv.padding, launch)


def predicted_clocks(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of the best tile; infinite if none fits, and for other steps than a ConvStep."""
    if not isinstance(step, ConvStep):
        return inf
    bests = [(each, tiles(each, architecture)[:1]) for each in _geometries(step, tensors, architecture)]
    return min((busy_clocks(work(each, best[0]), architecture) for each, best in bests if best), default=inf)


def _geometries(step: ConvStep, tensors: Tensors, architecture: Architecture) -> list[Geometry]:
    """The plain geometry, and those with several filters in a word where the weights allow it."""
    plain = _geometry(step, tensors, architecture)
    if plain.depth != 2 or step.shortcut is not None:
        return [plain]
    packings = possible_fields(step.conv.weights.decode(), tensors.types[step.conv.input])
    return [plain, *(replace(plain, fields=fields) for fields in packings)]


def _parameters(geometry: Geometry, tile: Tile) -> dict[str, int]:
    """Of a candidate, for reports."""
    fields = {"fields": geometry.fields.count} if geometry.fields.count > 1 else {}
    return tile.as_dict() | {"depth": geometry.depth} | fields


def _geometry(step: ConvStep, tensors: Tensors, architecture: Architecture) -> Geometry:
    conv = step.conv
    convs = [conv] if step.shortcut is None else [conv, step.shortcut]
    fits_bytes = all(_fits_bytes(each.weights.decode()) for each in convs)
    height, width, _ = conv.output.shape
    channels = tensors.types[conv.input].shape[2]
    in_memory = channels if conv.input in tensors.packed else -(-channels // 4) * 4
    kernel = (conv.weights.shape[1], conv.weights.shape[2])
    return Geometry(
        height,
        width,
        max(each.weights.shape[0] for each in convs),
        kernel,
        conv.stride,
        -(-channels // 4) * 4,
        4 if architecture.dot4 and fits_bytes else 2,
        next((size for size in (16, 8) if in_memory % size == 0), 4),
        step.shortcut is not None,
    )


def _fits_bytes(weights: NDArray[np.int32]) -> bool:
    return bool(weights.min() >= -128 and weights.max() <= 127)


def _launch(step: ConvStep, tensors: Tensors, geometry: Geometry, tile: Tile, buffers: Buffers) -> Launch:
    conv, sizes = step.conv, layout(geometry, tile)
    across, along = blocks(geometry, tile)
    padded = along * tile.block_filters
    source, output = buffers[conv.input], buffers[step.output.name]
    main = conv_epilogue("MAIN", step, tensors, padded)
    defines = (
        *_tile_defines(step, geometry, tile, sizes),
        *_input_defines(step, geometry, tile, source),
        ("CHANNEL_VECTORS", padded // tile.filters),
        *tensor_defines("OUT", output, tile.filters // 4),
        *main.defines,
        *residual_defines(step, tensors),
    )
    weights = Constant(f"{conv.name}.weights", _packed(conv, geometry, tile))
    arguments: tuple[Argument, ...] = (source, weights, main.channels_by_vector(tile.filters), main.table, output)
    if step.residual is not None:
        defines += tensor_defines("RESIDUAL", buffers[step.residual], tile.filters // 4)
        arguments += (buffers[step.residual],)
    if step.shortcut is not None:
        beside = shortcut_epilogue("BESIDE", step.shortcut, tensors, padded)
        target = buffers[step.shortcut.name]
        defines += (*tensor_defines("BESIDE_OUT", target, tile.filters // 4), *beside.defines)
        packed = Constant(f"{step.shortcut.name}.weights", _packed(step.shortcut, geometry, tile))
        arguments += (packed, beside.channels_by_vector(tile.filters), beside.table, target)
    return Launch(
        tuple(layer.name for layer in step.layers),
        Source("direct/kernel.cu", "direct", defines),
        (across, along),
        (tile.threads, 1, 1),
        arguments,
        4 * sizes.words,
        _parameters(geometry, tile),
        _loops(geometry, tile, sizes),
    )


def _tile_defines(step: ConvStep, geometry: Geometry, tile: Tile, sizes: Layout) -> Defines:
    conv = step.conv
    height, width, _ = conv.output.shape
    is_partial = height % tile.tile_y or width % (tile.tile_x * tile.pixels)
    values = {
        "PIXELS": tile.pixels,
        "FILTERS": tile.filters,
        "TILE_X": tile.tile_x,
        "TILE_Y": tile.tile_y,
        "TILES_X": -(-width // (tile.tile_x * tile.pixels)),
        "THREADS_C": tile.threads_c,
        "SPLIT": tile.split,
        "CHUNK": tile.chunk,
        "DEPTH": geometry.depth,
        "FIELDS": geometry.fields.count,
        "FIELD_BITS": geometry.fields.bits,
        "FIELDS_START": geometry.fields.start,
        "TOGETHER": together(geometry, tile),
        "KERNEL_H": geometry.kernel[0],
        "KERNEL_W": geometry.kernel[1],
        "STRIDE_Y": geometry.stride[0],
        "STRIDE_X": geometry.stride[1],
        "PAD_TOP": conv.padding[0],
        "PAD_LEFT": conv.padding[1],
        "PHASE_WORDS": sizes.phase_words,
        "ROW_WORDS": sizes.row_words,
        "PLANE_WORDS": sizes.plane_words,
        "SCRATCH_AT": sizes.scratch_at,
        "AHEAD": AHEAD,
        "UNROLL_PLANES": int(_unrolls_planes(geometry, tile)),
        "BESIDE": int(geometry.beside),
        "OUT_H": height,
        "OUT_W": width,
        "OUT_CHECKED": int(bool(is_partial)),
    }
    return tuple(values.items())


def _input_defines(step: ConvStep, geometry: Geometry, tile: Tile, source: Buffer) -> Defines:
    """Definitions for loading the patch. A packed buffer has no ring, so padding is added while loading."""
    conv = step.conv
    height, width, channels = source.shape
    first_y, first_x = source.ring[0] - conv.padding[0], source.ring[1] - conv.padding[1]
    rows = -(-conv.output.shape[0] // tile.tile_y) * tile.tile_y
    columns = -(-conv.output.shape[1] // (tile.tile_x * tile.pixels)) * tile.tile_x * tile.pixels
    last_y = first_y + (rows - 1) * conv.stride[0] + geometry.kernel[0] - 1
    last_x = first_x + (columns - 1) * conv.stride[1] + geometry.kernel[1] - 1
    is_checked = first_y < 0 or first_x < 0 or last_y >= height or last_x >= width
    kind = integer_type(source)
    fill = int(np.full(4, kind.zero_point & 0xFF, np.uint8).view(np.int32)[0])
    values = {
        "IN_C": kind.shape[2],
        "IN_H": height,
        "IN_W": width,
        "IN_ROW": width * channels,
        "IN_PIXEL": channels,
        "IN_IMAGE": height * width * channels,
        "IN_Y": first_y,
        "IN_X": first_x,
        "IN_CHECKED": int(is_checked),
        "IN_FILL": fill,
        "IN_SIGNED": int(kind.signed),
        "IN_BYTES": int(channels % 4 != 0),
        "IN_PASSES": passes(geometry, tile),
        "VECTOR_BYTES": geometry.vector_bytes,
        "AT_ONCE": patch_loop(geometry, tile, layout(geometry, tile))[1],
    }
    return tuple(values.items())


def _packed(conv: Conv, geometry: Geometry, tile: Tile) -> NDArray[Any]:
    """Weights [block of filters][pass][kernel row][plane][kernel column][filter of the block][channel of the word].

    The part that a block stages at once is contiguous, so its threads copy adjacent 16 bytes; in it, the words that a
    thread reads for one tap are also adjacent. Missing channels and filters are 0.
    """
    weights = conv.weights.decode()
    filters, kernel_height, kernel_width, channels = weights.shape
    rounds, along = passes(geometry, tile), blocks(geometry, tile)[1]
    full = np.zeros(
        (along * tile.block_filters, kernel_height, kernel_width, rounds * tile.chunk * geometry.depth), np.int32
    )
    full[:filters, :, :, :channels] = weights
    parts = (
        packed_filters(full, geometry.fields, tile.filters)
        .reshape(along, block_words(geometry, tile), kernel_height, kernel_width, rounds, tile.chunk, geometry.depth)
        .transpose(0, 4, 2, 5, 3, 1, 6)
    )
    return np.ascontiguousarray(parts, np.int8 if geometry.depth == 4 else np.int16)


def _unrolls_planes(geometry: Geometry, tile: Tile) -> bool:
    return tile.chunk <= _PLANES_UNROLLED and tile.split == 1 and geometry.fields.count == 1


def _plane_trips(geometry: Geometry, tile: Tile) -> int:
    return 1 if _unrolls_planes(geometry, tile) else tile.chunk // tile.split // together(geometry, tile)


def _loops(geometry: Geometry, tile: Tile, sizes: Layout) -> tuple[int, ...]:
    """Trip counts: passes { patch, further weights, kernel rows { planes } }, and the same for the shortcut."""
    rounds, planes = passes(geometry, tile), _plane_trips(geometry, tile)
    patch, _ = patch_loop(geometry, tile, sizes)
    weights = max(1, -(-sizes.weight_words // (4 * tile.threads)) - AHEAD)
    loops = (rounds, patch, weights, geometry.kernel[0], planes)
    if not geometry.beside:
        return loops
    pointwise = max(1, -(-tile.chunk * tile.block_filters // (4 * tile.threads)) - AHEAD)
    return (*loops, rounds, patch if rounds > 1 else 1, pointwise, 1, planes)
