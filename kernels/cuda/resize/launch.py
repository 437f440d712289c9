"""Launches of bilinear resizes."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Constant, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import ResizeBilinear
from edgemeta.model.layers.bilinear import BILINEAR_BITS, bilinear_axis

_THREADS = 128


def candidates(step: Step, _tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
    """The only candidate for a bilinear resize, on any architecture."""
    if isinstance(step, LayerStep) and isinstance(step.layer, ResizeBilinear):
        yield Candidate("resize", {}, NO_RING, partial(_launch, step.layer))


def _launch(resize: ResizeBilinear, buffers: Buffers) -> Launch:
    source, output = buffers[resize.input], buffers[resize.name]
    height, width, channels = resize.output.shape
    tensors = (*tensor_defines("IN", source), *tensor_defines("OUT", output))
    strides = dict(tensors)
    fours = -(-channels // 4)
    values = {"THREADS": _THREADS, "HEIGHT": height, "WIDTH": width, "FOURS": fours, "BITS": BILINEAR_BITS}
    return Launch(
        (resize.name,),
        Source("resize/kernel.cu", "resize", (*values.items(), *tensors)),
        (-(-height * width * fours // _THREADS), 1),
        (_THREADS, 1, 1),
        (
            source,
            output,
            _axis(f"{resize.name}.rows", resize, 0, source.kind.shape[0], strides["IN_ROW"]),
            _axis(f"{resize.name}.columns", resize, 1, source.kind.shape[1], strides["IN_PIXEL"]),
        ),
    )


def _axis(name: str, resize: ResizeBilinear, axis: int, size: int, stride: int) -> Constant:
    """int32 [H' or W', 4]: offsets of the lower and the upper neighbour, weights of the lower and the upper one."""
    places = bilinear_axis(size, resize.output.shape[axis], resize.coordinates)
    lower_weight = (1 << BILINEAR_BITS) - places.weight
    rows = np.stack([places.lower * stride, places.upper * stride, lower_weight, places.weight], axis=1)
    return Constant(name, np.ascontiguousarray(rows, np.int32))
