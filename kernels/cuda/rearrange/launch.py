"""Launches of layers that copy elements: concat, slice, upsample, pad, channel shuffle."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import ChannelShuffle, Concat, Pad, Slice, Upsample

MOST_PARTS = 32
"""Tensors that one launch concatenates: the kernel has a parameter for each."""

_THREADS = 128
_Copy = ChannelShuffle | Concat | Pad | Slice | Upsample


def candidates(step: Step, _tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
    """The only candidate for a layer that copies, on any architecture; none for too many tensors."""
    if isinstance(step, LayerStep) and isinstance(step.layer, _Copy) and len(step.reads) <= MOST_PARTS:
        yield Candidate("rearrange", {}, NO_RING, partial(_launch, step.layer))


def _launch(layer: _Copy, buffers: Buffers) -> Launch:
    sources, output = [buffers[name] for name in layer.sources], buffers[layer.name]
    height, width, channels = layer.output.shape
    of_part = [channels] if len(sources) == 1 else [source.kind.shape[2] for source in sources]
    firsts = np.cumsum([0, *of_part]).tolist()
    defines: dict[str, int] = {
        "THREADS": _THREADS,
        "PARTS": len(sources),
        "HEIGHT": height,
        "WIDTH": width,
        "IN_HEIGHT": sources[0].kind.shape[0],
        "IN_WIDTH": sources[0].kind.shape[1],
        **_places(layer, sources[0]),
    }
    parts: Defines = ()
    blocks = 0
    for n, (source, count) in enumerate(zip(sources, of_part, strict=True)):
        is_alone = firsts[n] % 4 == 0 and (count % 4 == 0 or n == len(sources) - 1)
        parts += ((f"PART{n}_C", count), (f"FIRST{n}", firsts[n]), (f"ALIGNED{n}", int(is_alone)))
        end = blocks + -(-height * width * -(-count // 4) // _THREADS)
        parts += ((f"BLOCK{n}", blocks), (f"END{n}", end), *tensor_defines(f"SOURCE{n}", source))
        blocks = end
    return Launch(
        (layer.name,),
        Source("rearrange/kernel.cu", "rearrange", (*defines.items(), *parts, *tensor_defines("OUT", output))),
        (blocks, 1),
        (_THREADS, 1, 1),
        (output, *sources),
    )


def _places(layer: _Copy, source: Buffer) -> dict[str, int]:
    """The kernel's formula of the element that each element is copied from."""
    step, start, divide, groups, per_group = (1, 1, 1), (0, 0, 0), (1, 1), 1, 0
    match layer:
        case Slice():
            step, start = layer.step, layer.start
        case Upsample():
            divide = layer.factor
        case Pad():
            start, divide = (-layer.padding[0], -layer.padding[1], 0), layer.spacing
        case ChannelShuffle():
            groups, per_group = layer.groups, source.kind.shape[2] // layer.groups
    fill = int(np.full(4, source.kind.zero_point & 0xFF, np.uint8).view(np.int32)[0])
    return {
        "STEP_Y": step[0],
        "STEP_X": step[1],
        "STEP_C": step[2],
        "START_Y": start[0],
        "START_X": start[1],
        "START_C": start[2],
        "DIVIDE_Y": divide[0],
        "DIVIDE_X": divide[1],
        "EXACT": int(isinstance(layer, Pad)),
        "FILL": fill,
        "GROUPS": groups,
        "PER_GROUP": per_group,
        "SAME_CHANNELS": int((step[2], start[2], groups) == (1, 0, 1)),
    }
