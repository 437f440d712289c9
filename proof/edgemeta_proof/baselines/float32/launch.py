"""Launch plan of a float32 network ("not quantized" in the paper), with the same launches as the integer network.

All arrays are float32, images [N, H, W, C]. The caller folds batch norm into weights and bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Constant, FloatType, Launch, LaunchPlan
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.layers import Padding, Pair, Shape
from edgemeta_proof.baselines.source import baseline_source

_PATH = "baselines/float32/kernel.cu"
_PIXELS = 4  # of one thread, side by side
_CHUNK = 16  # channels in shared memory at a time
_SLICES = 4
_TILES: Sequence[Pair] = ((8, 16), (8, 8), (4, 8), (4, 4))
_SHARED_BYTES = 48 << 10


@dataclass(frozen=True, eq=False)
class FloatConv:
    """y[o] = relu(bias[o] + sum over taps and channels of weight * x + residual); padding adds zeros.

    weight [O, KH, KW, I], bias [O]; residual: name of a tensor of y's shape, or None. shortcut: a 1x1 convolution of
    the same input, stride and number of outputs, without ReLU, whose tensor is also written.
    """

    name: str
    input: str
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    stride: Pair
    padding: Padding
    relu: bool
    residual: str | None = None
    shortcut: "FloatConv | None" = None


@dataclass(frozen=True, eq=False)
class FloatHead:
    """y = weight mean(x) + bias, the mean over rows and columns; weight [labels, C], bias [labels]."""

    name: str
    input: str
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def float_plan(
    input_shape: Shape, convolutions: Sequence[FloatConv], head: FloatHead, architecture: Architecture
) -> LaunchPlan:
    """The plan of the convolutions in the given order, then the head; the first reads the tensor "input".

    Raises UnsupportedError for a shortcut that does not match its convolution.
    """
    image = Buffer("input", FloatType(input_shape), packed=True)
    tensors = {"input": image}
    launches = [_convolution(step, tensors, architecture) for step in convolutions]
    logits = Buffer(head.name, FloatType((1, 1, len(head.bias))), packed=True)
    launches.append(head_launch(head, tensors[head.input], logits))
    return LaunchPlan(architecture, tuple(launches), image, (logits,))


def _convolution(step: FloatConv, tensors: dict[str, Buffer], architecture: Architecture) -> Launch:
    source = tensors[step.input]
    height, width, channels = source.kind.shape
    outputs, kernel_y, kernel_x, _ = step.weight.shape
    top, left, bottom, right = step.padding
    out_height = (height + top + bottom - kernel_y) // step.stride[0] + 1
    out_width = (width + left + right - kernel_x) // step.stride[1] + 1
    target = Buffer(step.name, FloatType((out_height, out_width, outputs)))
    chunk = min(_CHUNK, _fours(channels) * 4)
    tile = _tile(step, (out_height, out_width), chunk, architecture)
    weights = Constant(f"{step.name}.weights", _packed(step.weight, chunk, tile["lanes"]))
    bias = Constant(f"{step.name}.bias", _padded_bias(step.bias, tile["lanes"]))
    arguments: list[Argument] = [source, weights, bias]
    if step.residual is not None:
        arguments.append(tensors[step.residual])
    if step.shortcut is not None:
        arguments += _shortcut(step, step.shortcut, target.kind.shape, tensors, chunk, tile["lanes"])
    arguments.append(target)
    tensors[step.name] = target
    defines = {
        "CONVOLUTION": 1,
        "HEIGHT": height,
        "WIDTH": width,
        "CHANNELS": channels,
        "INPUT_PITCH": source.shape[2],
        "OUTPUT_HEIGHT": out_height,
        "OUTPUT_WIDTH": out_width,
        "OUTPUTS": outputs,
        "KERNEL_Y": kernel_y,
        "KERNEL_X": kernel_x,
        "STRIDE_Y": step.stride[0],
        "STRIDE_X": step.stride[1],
        "PADDING_TOP": top,
        "PADDING_LEFT": left,
        "ROWS": tile["rows"],
        "COLUMNS": tile["columns"],
        "LANES": tile["lanes"],
        "PIXELS": _PIXELS,
        "CHUNK": chunk,
        "RELU": int(step.relu),
        "RESIDUAL": int(step.residual is not None),
        "SHORTCUT": int(step.shortcut is not None),
    }
    tiles = -(-out_height // tile["rows"]) * -(-out_width // tile["columns"])
    threads = tile["rows"] * tile["columns"] // _PIXELS
    staged = _staged_floats(step, (tile["rows"], tile["columns"]), chunk)
    return Launch(
        layers=(step.name,) if step.shortcut is None else (step.name, step.shortcut.name),
        source=baseline_source(_PATH, "float32_convolution", tuple(defines.items())),
        grid=(tiles, -(-_fours(outputs) // tile["lanes"])),
        block=(tile["lanes"], threads, 1),
        arguments=tuple(arguments),
        tile=tile,
        loops=(-(-channels // chunk), -(-staged // (tile["lanes"] * threads)), kernel_y * kernel_x),
    )


def _shortcut(
    step: FloatConv, shortcut: FloatConv, shape: Shape, tensors: dict[str, Buffer], chunk: int, lanes: int
) -> list[Argument]:
    outputs, kernel_y, kernel_x, _ = shortcut.weight.shape
    fits = (
        shortcut.input == step.input
        and shortcut.stride == step.stride
        and (outputs, kernel_y, kernel_x) == (shape[2], 1, 1)
        and not any(shortcut.padding)
        and not shortcut.relu
        and shortcut.residual is None
    )
    if not fits:
        raise UnsupportedError(
            f"{shortcut.name}: not a valid shortcut of {step.name}, expected a 1x1 convolution of {step.input!r} with "
            f"stride {step.stride} and {shape[2]} outputs, without padding, residual and ReLU"
        )
    target = tensors[shortcut.name] = Buffer(shortcut.name, FloatType(shape))
    return [
        Constant(f"{shortcut.name}.weights", _packed(shortcut.weight, chunk, lanes)),
        Constant(f"{shortcut.name}.bias", _padded_bias(shortcut.bias, lanes)),
        target,
    ]


def head_launch(head: FloatHead, source: Buffer, logits: Buffer) -> Launch:
    """The launch of the mean and the dense layer."""
    height, width, channels = source.kind.shape
    labels = len(head.bias)
    defines = {
        "PIXEL_COUNT": height * width,
        "CHANNELS": channels,
        "INPUT_PITCH": source.shape[2],
        "SLICES": _SLICES,
        "LABELS": labels,
    }
    weights = Constant(f"{head.name}.weights", np.ascontiguousarray(head.weight.T, np.float32))
    bias = Constant(f"{head.name}.bias", np.ascontiguousarray(head.bias, np.float32))
    return Launch(
        layers=(head.name,),
        source=baseline_source(_PATH, "float32_head", tuple(defines.items())),
        grid=(1, 1),
        block=(channels, _SLICES, 1),
        arguments=(source, weights, bias, logits),
        loops=(-(-height * width // _SLICES), -(-labels // (channels * _SLICES)), channels),
    )


def _tile(step: FloatConv, out: Pair, chunk: int, architecture: Architecture) -> Mapping[str, int]:
    """Rows and columns of output pixels and groups of 4 outputs per block: the largest tile that leaves 8 blocks."""
    most = min(_SHARED_BYTES, architecture.shared_bytes)
    fitting = [tile for tile in _TILES if 4 * _staged_floats(step, tile, chunk + 4) <= most]
    if not fitting:
        raise UnsupportedError(f"{step.name}: a kernel of {step.weight.shape[1:3]} does not fit in shared memory")
    enough = [tile for tile in fitting if 8 * tile[0] * tile[1] <= out[0] * out[1]]
    rows, columns = enough[0] if enough else fitting[-1]
    return {"rows": rows, "columns": columns, "lanes": min(16, _fours(len(step.bias)))}


def _staged_floats(step: FloatConv, tile: Pair, pitch: int) -> int:
    _, kernel_y, kernel_x, _ = step.weight.shape
    rows, columns = (tile[0] - 1) * step.stride[0] + kernel_y, (tile[1] - 1) * step.stride[1] + kernel_x
    return int(rows * columns * pitch)


def _packed(weight: NDArray[np.float32], chunk: int, lanes: int) -> NDArray[np.float32]:
    """[O, KH, KW, I] -> [KH * KW, I padded to chunks, O padded to groups of 4 and lanes]: lanes are adjacent."""
    outputs, kernel_y, kernel_x, channels = weight.shape
    padded = np.zeros((kernel_y * kernel_x, -(-channels // chunk) * chunk, _padded(outputs, lanes)), np.float32)
    padded[:, :channels, :outputs] = weight.transpose(1, 2, 3, 0).reshape(kernel_y * kernel_x, channels, outputs)
    return padded


def _padded_bias(bias: NDArray[np.float32], lanes: int) -> NDArray[np.float32]:
    padded = np.zeros(_padded(len(bias), lanes), np.float32)
    padded[: len(bias)] = bias
    return padded


def _padded(outputs: int, lanes: int) -> int:
    return -(-_fours(outputs) // lanes) * lanes * 4


def _fours(count: int) -> int:
    return -(-count // 4)
