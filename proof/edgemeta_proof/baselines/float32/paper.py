"""The paper's design in float32, its row "not quantized": the launches of float_plan with the paper's kernels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, FloatType, Launch, LaunchPlan
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.layers import Shape
from edgemeta_proof.baselines.float32.launch import FloatConv, FloatHead, head_launch
from edgemeta_proof.baselines.paper.weights import Padded, padded_sizes, shuffled
from edgemeta_proof.baselines.source import baseline_source

_PATH = "baselines/float32/paper.cu"
_THREADS, _MOST_THREADS = 256, 1024
_STATIC_SHARED = 48 << 10
_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.float32) / 2


def paper_float_plan(
    input_shape: Shape, convolutions: Sequence[FloatConv], head: FloatHead, architecture: Architecture
) -> LaunchPlan:
    """The plan of the convolutions in the given order, then the head; the first reads the tensor "input".

    Winograd where the kernel is 3x3 with stride 1, the simple convolution otherwise; a shortcut is computed in the
    launch of its convolution, with one filter of 1x1 for every output. Raises UnsupportedError for a filter that does
    not fit into shared memory.
    """
    image = Buffer("input", FloatType(input_shape), packed=True)
    tensors = {"input": image}
    launches = [_convolution(step, tensors) for step in convolutions]
    logits = Buffer(head.name, FloatType((1, 1, len(head.bias))), packed=True)
    launches.append(head_launch(head, tensors[head.input], logits))
    return LaunchPlan(architecture, tuple(launches), image, (logits,))


def _convolution(step: FloatConv, tensors: dict[str, Buffer]) -> Launch:
    source = tensors[step.input]
    height, width, channels = source.kind.shape
    outputs, kernel_y, kernel_x, _ = step.weight.shape
    top, left, bottom, right = step.padding
    out_height = (height + top + bottom - kernel_y) // step.stride[0] + 1
    out_width = (width + left + right - kernel_x) // step.stride[1] + 1
    target = tensors[step.name] = Buffer(step.name, FloatType((out_height, out_width, outputs)))
    defines = {
        "HEIGHT": height,
        "WIDTH": width,
        "INPUT_CHANNELS": channels,
        "INPUT_PITCH": source.shape[2],
        "OUTPUT_HEIGHT": out_height,
        "OUTPUT_WIDTH": out_width,
        "OUTPUTS": outputs,
        "OUTPUT_PITCH": target.shape[2],
        "PADDING_TOP": top,
        "PADDING_LEFT": left,
        "RELU": int(step.relu),
        "RESIDUAL": int(step.residual is not None),
    }
    residual = [] if step.residual is None else [tensors[step.residual]]
    if (kernel_y, kernel_x) == (3, 3) and step.stride == (1, 1) and step.shortcut is None:
        return _winograd(step, defines, source, residual, target)
    return _map(step, defines, source, residual, target, tensors)


def _winograd(
    step: FloatConv, defines: dict[str, int], source: Buffer, residual: Sequence[Buffer], target: Buffer
) -> Launch:
    padded = padded_sizes(defines["INPUT_CHANNELS"], defines["OUTPUTS"])
    _check(step, 4 * 16 * (2 * padded.channels + padded.filters))
    sizes = {"CHANNELS": padded.channels, "FILTERS": padded.filters, "LANES": padded.lanes}
    own = {"WINOGRAD": 1, "THREADS": _THREADS, **sizes}
    arguments: list[Argument] = [source, Constant(f"{step.name}.winograd", _transformed(step.weight, padded))]
    loops = tuple(-(-items // _THREADS) for items in (padded.channels, 16 * padded.filters, defines["OUTPUTS"]))
    return Launch(
        layers=(step.name,),
        source=baseline_source(_PATH, "float32_winograd", (*defines.items(), *own.items())),
        grid=(-(-defines["OUTPUT_HEIGHT"] // 2) * -(-defines["OUTPUT_WIDTH"] // 2), 1),
        block=(_THREADS, 1, 1),
        arguments=(*arguments, _bias(step), *residual, target),
        loops=loops,
    )


def _map(
    step: FloatConv, defines: dict[str, int], source: Buffer, residual: Sequence[Buffer], target: Buffer,
    tensors: dict[str, Buffer],
) -> Launch:  # fmt: skip
    outputs, kernel_y, kernel_x, channels = step.weight.shape
    _check(step, 4 * kernel_y * kernel_x * channels)
    pixels = defines["OUTPUT_HEIGHT"] * defines["OUTPUT_WIDTH"]
    threads = min(pixels, _MOST_THREADS)
    own = {
        "WINOGRAD": 0,
        "THREADS": threads,
        "KERNEL_Y": kernel_y,
        "KERNEL_X": kernel_x,
        "STRIDE_Y": step.stride[0],
        "STRIDE_X": step.stride[1],
        "SHORTCUT": int(step.shortcut is not None),
    }
    arguments: list[Argument] = [source, Constant(f"{step.name}.map", np.ascontiguousarray(step.weight)), _bias(step)]
    arguments += residual
    names: tuple[str, ...] = (step.name,)
    maps = outputs
    if step.shortcut is not None:
        beside = tensors[step.shortcut.name] = Buffer(step.shortcut.name, target.kind)
        weights = Constant(f"{step.shortcut.name}.map", np.ascontiguousarray(step.shortcut.weight))
        arguments += [weights, _bias(step.shortcut), beside]
        names, maps = (step.name, step.shortcut.name), 2 * outputs
    return Launch(
        layers=names,
        source=baseline_source(_PATH, "float32_map", (*defines.items(), *own.items())),
        grid=(maps, -(-pixels // threads)),
        block=(threads, 1, 1),
        arguments=(*arguments, target),
    )


def _transformed(weight: NDArray[np.float32], padded: Padded) -> NDArray[np.float32]:
    """G g G^T of [O, 3, 3, C], in Algorithm 1's order: [16, groups, channels * lanes]."""
    values = np.einsum("ia,oabc,jb->ijco", _G, weight, _G, dtype=np.float32)
    return shuffled(values.reshape(16, *values.shape[2:]), padded).astype(np.float32)


def _bias(step: FloatConv) -> Constant:
    return Constant(f"{step.name}.bias", np.ascontiguousarray(step.bias, np.float32))


def _check(step: FloatConv, shared_bytes: int) -> None:
    if shared_bytes > _STATIC_SHARED:
        raise UnsupportedError(f"{step.name}: a kernel of {step.weight.shape[1:]} does not fit in shared memory")
