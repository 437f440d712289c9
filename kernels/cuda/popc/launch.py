"""Launches of convolutions and dense layers by popcount over bit planes: steps, choice, layout of weights."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, prod

import numpy as np

from edgemeta.kernels.cuda.direct import launch as direct
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import Epilogue, make_epilogue, residual_defines
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.cuda.pool_dense import launch as pool_dense
from edgemeta.kernels.cuda.popc.planes import WeightPlanes, packed_factors, packed_planes, planes_of
from edgemeta.kernels.cuda.popc.tiles import (
    AHEAD,
    Geometry,
    Rows,
    Tile,
    at_once,
    blocks,
    layout,
    passes,
    tiles,
    together,
    weight_trips,
    window_trips,
)
from edgemeta.kernels.cuda.tensor import launch as tensor
from edgemeta.kernels.cuda.winograd import launch as winograd
from edgemeta.kernels.lowering.requantization import fold_clamps, product_accumulators
from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, Step
from edgemeta.model.layers import Clamp, Conv, Dense, Padding, TensorType

_CANDIDATES = 4
"""Number of tiles that tuning tries."""

_MARGIN = 0.9
"""Share of the other kernels' predicted time below which popcount is taken. The estimate of its tiles is about a tenth
lower, compared with the simulation of machine code, than that of Winograd's (benchmarks/results/popc-sm_53.md)."""


@dataclass(frozen=True, eq=False)
class _Products:
    """A layer as a convolution of one group: `kernel` windows of an input of `channels` channels.

    conv: the step's other layers, if it is a convolution's. bits: of the activations.
    """

    step: Step
    layer: Conv | Dense
    conv: ConvStep | None
    planes: WeightPlanes
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    channels: int
    bits: int


def candidates(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Candidates by rule: those that are predicted to be faster than every other kernel; the fastest first."""
    return [candidate for _, candidate in _offers(step, tensors, architecture, is_rule=True)]


def alternatives(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """All other candidates: for tuning, not by rule."""
    return [candidate for _, candidate in _offers(step, tensors, architecture, is_rule=False)]


def forced(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Both, for plans that take popcount wherever it can run."""
    return (*candidates(step, tensors, architecture), *alternatives(step, tensors, architecture))


def predicted_clocks(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of the best tile; infinite for steps that it does not support."""
    products = _products(step, tensors)
    if products is None:
        return inf
    return min((clocks for clocks, _ in tiles(_geometry(products, tensors), architecture)), default=inf)


def others_clocks(step: Step, tensors: Tensors, architecture: Architecture) -> float:
    """Predicted clocks of the fastest other kernel; infinite where there is no prediction for any."""
    predictions = (
        direct.predicted_clocks,
        winograd.predicted_clocks,
        tensor.predicted_clocks,
        pool_dense.predicted_clocks,
    )
    return min(predicted(step, tensors, architecture) for predicted in predictions)


def _offers(
    step: Step, tensors: Tensors, architecture: Architecture, is_rule: bool
) -> Iterable[tuple[float, Candidate]]:
    products = _products(step, tensors)
    if products is None:
        return
    others, geometry = others_clocks(step, tensors, architecture), _geometry(products, tensors)
    limit = 0.0 if others == inf else _MARGIN * others
    for clocks, tile in tiles(geometry, architecture)[:_CANDIDATES]:
        if (clocks < limit) == is_rule:
            launch = partial(_launch, products, tensors, geometry, tile)
            yield clocks, Candidate("popc", _parameters(geometry, tile), products.padding, launch)


def _products(step: Step, tensors: Tensors) -> _Products | None:
    """The step as products of planes, if its weights have some; a shortcut and a pool are left to other kernels."""
    match step:
        case ConvStep(shortcut=None):
            return _of_conv(step, step, tensors)
        case LayerStep(Conv() as conv) if conv.groups == 1 and conv.dilation == (1, 1):  # weights of over 16 bits
            return _of_conv(step, ConvStep(conv), tensors)
        case PoolDenseStep(pool=None, dense=Dense() as dense):
            return _of_dense(step, dense, tensors)
    return None


def _of_conv(step: Step, fused: ConvStep, tensors: Tensors) -> _Products | None:
    conv, planes = fused.conv, planes_of(fused.conv.weights)
    if planes is None:
        return None
    _, height, width, channels = conv.weights.shape
    bits = _bits(conv.input, tensors)
    return _Products(step, conv, fused, planes, (height, width), conv.stride, conv.padding, channels, bits)


def _of_dense(step: Step, dense: Dense, tensors: Tensors) -> _Products | None:
    """A packed input is one line of inputs; another one a map, of which the layer is a convolution of the same size."""
    planes = planes_of(dense.weights)
    if planes is None:
        return None
    shape = tensors.types[dense.input].shape
    height, width, channels = (1, 1, prod(shape)) if dense.input in tensors.packed else shape
    bits = _bits(dense.input, tensors)
    return _Products(step, dense, None, planes, (height, width), (1, 1), NO_RING, channels, bits)


def _bits(name: str, tensors: Tensors) -> int:
    """Bits of the planes of a tensor: 8 for packed ones, as nothing proves that a caller's integers fit the type."""
    return 8 if name in tensors.packed else tensors.types[name].bits


def _geometry(products: _Products, tensors: Tensors) -> Geometry:
    height, width, filters = products.layer.output.shape
    fours = -(-products.channels // 4)
    is_packed = products.layer.input in tensors.packed
    is_whole = not is_packed or products.channels % 4 == 0
    run = next(run for run in (4, 2, 1) if fours % run == 0) if is_whole else 1
    totals = products.planes.has_totals
    window = prod(products.kernel) * fours
    taps, across = prod(products.kernel), tensors.types[products.layer.input].shape[1]
    rows = Rows(width, 4 * fours * across, products.kernel[0], products.stride[0], taps)
    return Geometry(height * width, filters, window, run, products.bits, len(products.planes.planes), totals, rows)


def _parameters(geometry: Geometry, tile: Tile) -> dict[str, int]:
    """Of a candidate, for reports."""
    return tile.as_dict() | {"bits": geometry.bits, "bases": geometry.bases}


def _launch(products: _Products, tensors: Tensors, geometry: Geometry, tile: Tile, buffers: Buffers) -> Launch:
    layer, sizes = products.layer, layout(geometry, tile)
    across, along = blocks(geometry, tile)
    padded = along * tile.block_filters
    source, output = buffers[layer.input], buffers[products.step.output.name]
    main = _epilogue(products, tensors, padded)
    defines: Defines = (
        *_tile_defines(products, geometry, tile, padded),
        *_input_defines(products, source),
        *tensor_defines("OUT", output, tile.filters // 4),
        *main.defines,
    )
    arguments: tuple[Argument, ...] = (
        source,
        Constant(f"{layer.name}.weights", packed_planes(products.planes, products.channels, geometry, tile)),
        Constant(f"{layer.name}.factors", packed_factors(products.planes, padded)),
        main.channels_by_vector(tile.filters),
        main.table,
        output,
    )
    if products.conv is not None:
        defines += residual_defines(products.conv, tensors)
        if products.conv.residual is not None:
            defines += tensor_defines("RESIDUAL", buffers[products.conv.residual], tile.filters // 4)
            arguments += (buffers[products.conv.residual],)
    return Launch(
        tuple(each.name for each in products.step.layers),
        Source("popc/kernel.cu", "popc", defines),
        (across, along),
        (tile.threads, 1, 1),
        arguments,
        4 * sizes.words,
        _parameters(geometry, tile),
        _loops(geometry, tile),
    )


def _epilogue(products: _Products, tensors: Tensors, padded: int) -> Epilogue:
    """Of sums of weights times (activation - least): the bias takes what is missing."""
    layer, source = products.layer, tensors.types[products.layer.input]
    sums = product_accumulators(layer, source)
    weights = layer.weights.decode().reshape(layer.weights.shape[0], -1).sum(axis=1, dtype=np.int64)
    start = sums.start + _least(source, products.bits) * weights
    clamps: tuple[Clamp, ...] = ()
    if products.conv is not None and products.conv.add is None:
        clamps = products.conv.after
    requantize = fold_clamps(layer.requantize, clamps)
    return make_epilogue("MAIN", layer.name, requantize, layer.output, replace(sums, start=start), padded)


def _least(source: TensorType, bits: int) -> int:
    return -(1 << bits - 1) if source.signed else 0


def _tile_defines(products: _Products, geometry: Geometry, tile: Tile, padded: int) -> Defines:
    height, width, _ = products.layer.output.shape
    sizes = layout(geometry, tile)
    values = {
        "PIXELS": tile.pixels,
        "FILTERS": tile.filters,
        "THREADS_P": tile.threads_p,
        "THREADS_C": tile.threads_c,
        "SPLIT": tile.split,
        "CHUNK": tile.chunk,
        "PASSES": passes(geometry, tile),
        "AT_ONCE": at_once(tile),
        "AHEAD": AHEAD,
        "TOGETHER": together(geometry, tile),
        "BITS": geometry.bits,
        "BASES": geometry.bases,
        "TOTALS": int(geometry.totals),
        "TOTALS_AT": sizes.totals_at,
        "WEIGHTS_AT": sizes.weights_at,
        "RUN": geometry.run,
        "KERNEL_H": products.kernel[0],
        "KERNEL_W": products.kernel[1],
        "STRIDE_Y": products.stride[0],
        "STRIDE_X": products.stride[1],
        "FACTOR_VECTORS": padded // 4,
        "CHANNEL_VECTORS": padded // tile.filters,
        "OUT_H": height,
        "OUT_W": width,
        "OUT_CHECKED": int(height * width % tile.block_pixels != 0),
    }
    return tuple(values.items())


def _input_defines(products: _Products, source: Buffer) -> Defines:
    """Definitions for loading windows. A packed buffer has no ring, so padding is added while loading."""
    height, width, elements = source.shape
    kind = integer_type(source)
    if isinstance(products.layer, Dense) and source.packed:
        height, width, elements = 1, 1, height * width * elements
    first_y, first_x = source.ring[0] - products.padding[0], source.ring[1] - products.padding[1]
    rows, columns, _ = products.layer.output.shape
    last_y = first_y + (rows - 1) * products.stride[0] + products.kernel[0] - 1
    last_x = first_x + (columns - 1) * products.stride[1] + products.kernel[1] - 1
    values = {
        "IN_C": products.channels,
        "IN_H": height,
        "IN_W": width,
        "IN_ROW": width * elements,
        "IN_PIXEL": elements,
        "IN_IMAGE": height * width * elements,
        "IN_Y": first_y,
        "IN_X": first_x,
        "IN_CHECKED": int(first_y < 0 or first_x < 0 or last_y >= height or last_x >= width),
        "IN_FILL": int(np.full(4, kind.zero_point & 0xFF, np.uint8).view(np.int32)[0]),
        "IN_SIGNED": int(kind.signed),
        "IN_BYTES": int(elements % 4 != 0),
    }
    return tuple(values.items())


def _loops(geometry: Geometry, tile: Tile) -> tuple[int, ...]:
    """Trip counts: passes { windows, weights, bases { words }, words of the sums }."""
    turns = tile.chunk // tile.split
    rounds, words = passes(geometry, tile), turns // together(geometry, tile)
    loops = (rounds, window_trips(tile), weight_trips(geometry, tile), geometry.bases, words)
    return (*loops, turns) if geometry.totals else loops
