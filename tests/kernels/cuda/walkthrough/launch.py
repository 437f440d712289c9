"""Launches of max pooling."""

from collections.abc import Iterable
from functools import partial

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import MaxPool

_THREADS = 128


def candidates(step: Step, _tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
    """The one way to run a max pool, on any architecture."""
    if isinstance(step, LayerStep) and isinstance(step.layer, MaxPool):
        yield Candidate("max_pool", {}, NO_RING, partial(_launch, step.layer))


def _launch(pool: MaxPool, buffers: Buffers) -> Launch:
    source, output = buffers[pool.input], buffers[pool.name]
    height, width, channels = pool.output.shape
    defines = {
        "THREADS": _THREADS,
        "HEIGHT": height,
        "WIDTH": width,
        "FOURS": -(-channels // 4),
        "IN_HEIGHT": source.kind.shape[0],
        "IN_WIDTH": source.kind.shape[1],
        "KERNEL_Y": pool.kernel[0],
        "KERNEL_X": pool.kernel[1],
        "STRIDE_Y": pool.stride[0],
        "STRIDE_X": pool.stride[1],
        "PAD_TOP": pool.padding[0],
        "PAD_LEFT": pool.padding[1],
    }
    tensors = (*tensor_defines("IN", source), *tensor_defines("OUT", output))
    return Launch(
        layers=(pool.name,),
        source=Source("max_pool/kernel.cu", "max_pool", (*defines.items(), *tensors)),
        grid=(-(-height * width * defines["FOURS"] // _THREADS), 1),
        block=(_THREADS, 1, 1),
        arguments=(source, output),
        loops=(pool.kernel[0],),
    )
