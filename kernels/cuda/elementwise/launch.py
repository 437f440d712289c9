"""Launches of elementwise layers."""

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import addition_defines, make_epilogue
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import integer_type, tensor_defines
from edgemeta.kernels.lowering.requantization import product_of_tensors, sum_accumulators
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import Add, Clamp, Lookup, Product, Rescale

_THREADS = 128
_Elementwise = Add | Clamp | Lookup | Product | Rescale


def candidates(step: Step, tensors: Tensors, _: Architecture) -> Iterable[Candidate]:
    """The only candidate for an addition, clamp, rescale, table or product, on any architecture."""
    if isinstance(step, LayerStep) and isinstance(step.layer, _Elementwise):
        yield Candidate("elementwise", {}, NO_RING, partial(_launch, step.layer, tensors))


def _launch(layer: _Elementwise, tensors: Tensors, buffers: Buffers) -> Launch:
    source, output = buffers[layer.sources[0]], buffers[layer.name]
    height, width, channels = layer.output.shape
    fours = -(-channels // 4)
    items = height * width * fours
    arguments: tuple[Argument, ...] = (source, output)
    defines: Defines = (("THREADS", _THREADS), ("HEIGHT", height), ("WIDTH", width), ("FOURS", fours))
    defines += (*tensor_defines("IN", source), *tensor_defines("OUT", output))
    match layer:
        case Add():
            other = buffers[layer.inputs[1]]
            defines += (("OTHER", 1), *addition_defines(layer, 0, tensors), *tensor_defines("OTHER", other))
            arguments += (other,)
        case Clamp():
            defines += (("CLAMP_LO", layer.lo), ("CLAMP_HI", layer.hi))
        case Lookup():
            table = _padded_table(layer.entries, 4 * fours)
            defines += (("LOOKUP_ROW", 256 if len(table) > 1 else 0), ("LOOKUP_LEAST", _least(source)))
            arguments += (Constant(f"{layer.name}.table", table),)
        case Product():
            factor = buffers[layer.inputs[1]]
            own, other_type = (tensors.types[name] for name in layer.inputs)
            defines += (("OTHER", 1), *_factor_defines(factor, layer))
            defines += (("PRODUCT_ZERO", own.zero_point), ("PRODUCT_OTHER_ZERO", other_type.zero_point))
            sums = product_of_tensors(own, other_type)
            requantized = make_epilogue("RESCALE", layer.name, layer.requantize, layer.output, sums, 4 * fours)
            defines += requantized.defines
            arguments += (factor, requantized.channels, requantized.table)
        case Rescale():
            sums = sum_accumulators(tensors.types[layer.input], 1)
            requantized = make_epilogue("RESCALE", layer.name, layer.requantize, layer.output, sums, 4 * fours)
            defines += requantized.defines
            arguments += (requantized.channels, requantized.table)
    return Launch(
        (layer.name,),
        Source("elementwise/kernel.cu", "elementwise", defines),
        (-(-items // _THREADS), 1),
        (_THREADS, 1, 1),
        arguments,
    )


def _least(source: Buffer) -> int:
    """Integer of the first column of a table."""
    return -128 if integer_type(source).signed else 0


def _padded_table(
    entries: NDArray[np.int8] | NDArray[np.uint8], channels: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The table's bytes, with rows for all channels in memory if it has a row per channel."""
    table = entries.view(np.uint8)
    if len(table) == 1:
        return np.ascontiguousarray(table)
    return np.pad(table, ((0, channels - len(table)), (0, 0)))


def _factor_defines(factor: Buffer, layer: Product) -> Defines:
    """Defines of the second input; one of a single pixel is read again for every pixel."""
    defines = tensor_defines("OTHER", factor)
    if factor.kind.shape[:2] == layer.output.shape[:2]:
        return defines
    return tuple((name, 0 if name in ("OTHER_ROW", "OTHER_PIXEL") else value) for name, value in defines)
