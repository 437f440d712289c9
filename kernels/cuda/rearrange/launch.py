"""Launches of layers that copy elements: concat, and whatever moves the elements of one tensor."""

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Constant, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.gather import Gather, gather_of
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import Concat, Layer

MOST_PARTS = 32
"""Tensors that one launch concatenates: the kernel has a parameter for each."""

_THREADS = 128


def candidates(step: Step, tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
    """The only candidate for a layer that copies, on any architecture; none for too many tensors."""
    if not isinstance(step, LayerStep):
        return
    gather = gather_of(step.layer, tensors.types[step.reads[0]].shape)
    if gather is not None or (isinstance(step.layer, Concat) and len(step.reads) <= MOST_PARTS):
        yield Candidate("rearrange", {}, NO_RING, partial(_launch, step.layer, gather))


def _launch(layer: Layer, gather: Gather | None, buffers: Buffers) -> Launch:
    sources, output = [buffers[name] for name in layer.sources], buffers[layer.name]
    height, width, channels = layer.output.shape
    of_part = [channels] if gather is not None else [source.kind.shape[2] for source in sources]
    firsts = np.cumsum([0, *of_part]).tolist()
    defines = {"THREADS": _THREADS, "PARTS": len(sources), "HEIGHT": height, "WIDTH": width, "MOVES": 0}
    lists: tuple[Constant, ...] = ()
    if gather is not None:
        moves, lists = _moves(layer.name, gather, sources[0])
        defines |= moves
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
        (output, *sources, *lists),
    )


def _moves(name: str, gather: Gather, source: Buffer) -> tuple[dict[str, int], tuple[Constant, ...]]:
    """Definitions and lists of a layer that moves elements: bytes from the source's first one, -1 for none."""
    strides = dict(tensor_defines("", source))
    lists = {"rows": gather.rows, "columns": gather.columns, "channels": gather.channels}
    offsets: dict[str, NDArray[np.int32]] = {}
    for each, elements in lists.items():
        row, column, channel = np.unravel_index(np.maximum(elements, 0), source.kind.shape)
        bytes_ = row * strides["_ROW"] + column * strides["_PIXEL"] + channel
        offsets[each] = np.ascontiguousarray(np.where(elements < 0, -1, bytes_), np.int32)
    starts = np.concatenate([offsets["rows"], offsets["columns"]])
    is_adjacent = np.array_equal(offsets["channels"], np.arange(len(gather.channels)))
    are_words = strides["_WORDS"] > 0 and is_adjacent and not (starts[starts >= 0] % 4).any()
    fill = int(np.full(4, source.kind.zero_point & 0xFF, np.uint8).view(np.int32)[0])
    constants = tuple(Constant(f"{name}.{each}", values) for each, values in offsets.items())
    return {"MOVES": 1, "FILL": fill, "WORDS": int(are_words)}, constants
