"""Launches of max and average pools over windows."""

from collections.abc import Iterable
from functools import partial

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.epilogue import make_epilogue
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Buffers, Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Defines, Launch, Source
from edgemeta.kernels.cuda.plan.layout import tensor_defines
from edgemeta.kernels.lowering.requantization import window_accumulators
from edgemeta.kernels.lowering.steps import LayerStep, Step
from edgemeta.model.layers import AveragePool, MaxPool

_THREADS = 128


def candidates(step: Step, tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
    """The only candidate for a pool that is not an average of the whole map, on any architecture."""
    if isinstance(step, LayerStep) and isinstance(step.layer, MaxPool | AveragePool):
        yield Candidate("pool", {}, NO_RING, partial(_launch, step.layer, tensors))


def _launch(pool: MaxPool | AveragePool, tensors: Tensors, buffers: Buffers) -> Launch:
    source, output = buffers[pool.input], buffers[pool.name]
    height, width, channels = pool.output.shape
    fours = -(-channels // 4)
    values = {
        "THREADS": _THREADS,
        "HEIGHT": height,
        "WIDTH": width,
        "FOURS": fours,
        "IN_HEIGHT": source.kind.shape[0],
        "IN_WIDTH": source.kind.shape[1],
        "KERNEL_Y": pool.kernel[0],
        "KERNEL_X": pool.kernel[1],
        "STRIDE_Y": pool.stride[0],
        "STRIDE_X": pool.stride[1],
        "PAD_TOP": pool.padding[0],
        "PAD_LEFT": pool.padding[1],
    }
    defines: Defines = (*values.items(), *tensor_defines("IN", source), *tensor_defines("OUT", output))
    arguments: tuple[Argument, ...] = (source, output)
    if isinstance(pool, AveragePool):
        kind = tensors.types[pool.input]
        shares = pool.shares(kind.shape)
        sums = window_accumulators(kind, shares[0] * shares[1])
        requantized = make_epilogue("POOL", pool.name, pool.requantize, pool.output, sums, 4 * fours)
        defines += (("POOL_IN_ZERO", kind.zero_point), *requantized.defines)
        if pool.inside:
            defines += (("SHARE_Y", shares[0]), ("SHARE_X", shares[1]))
        arguments += (requantized.channels, requantized.table)
    return Launch(
        (pool.name,),
        Source("pool/kernel.cu", "pool", defines),
        (-(-height * width * fours // _THREADS), 1),
        (_THREADS, 1, 1),
        arguments,
        loops=pool.kernel,
    )
