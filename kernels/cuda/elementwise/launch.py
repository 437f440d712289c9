"""Launches of elementwise layers."""

from collections.abc import Iterable
from functools import partial

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import addition_defines, make_epilogue
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.requantization import sum_accumulators
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import Add, Clamp, Rescale, inputs_of

_THREADS = 128


def candidates(step: Step, tensors: Tensors, _: Architecture) -> Iterable[Candidate]:
    """The only candidate for an addition, clamp or rescale, on any architecture."""
    if isinstance(step, LayerStep) and isinstance(step.layer, Add | Clamp | Rescale):
        yield Candidate("elementwise", {}, NO_RING, partial(_launch, step.layer, tensors))


def _launch(layer: Add | Clamp | Rescale, tensors: Tensors, buffers: Buffers) -> Launch:
    source, output = buffers[inputs_of(layer)[0]], buffers[layer.name]
    height, width, channels = layer.output.shape
    fours = -(-channels // 4)
    items = height * width * fours
    arguments: tuple[Argument, ...] = (source, output)
    defines: Defines = (("THREADS", _THREADS), ("HEIGHT", height), ("WIDTH", width), ("FOURS", fours))
    defines += (*tensor_defines("IN", source), *tensor_defines("OUT", output))
    match layer:
        case Add():
            defines += (*addition_defines(layer, 0, tensors), *tensor_defines("OTHER", buffers[layer.inputs[1]]))
            arguments += (buffers[layer.inputs[1]],)
        case Clamp():
            defines += (("CLAMP_LO", layer.lo), ("CLAMP_HI", layer.hi))
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
