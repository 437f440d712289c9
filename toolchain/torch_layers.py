"""Layers of a float graph as PyTorch modules.

Tensors are [N, C, H, W]. Convolutions, dense layers and batch norms are modules of PyTorch: their weights are trained,
and the precision simulator rounds them. Every other layer is an `Operation`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.layers import (
    Add,
    AveragePool,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Constant,
    Conv,
    Dense,
    Float32,
    FloatLayer,
    Function,
    GlobalAverage,
    LayerNorm,
    MatMul,
    MaxPool,
    Moving,
    Pad,
    Padding,
    PRelu,
    Product,
    Relu,
    ResizeBilinear,
    Softmax,
    Upsample,
    Weighted,
)
from edgemeta.model.layers.bilinear import bilinear_places
from edgemeta.model.layers.functions import GREATEST_EXPONENT, LEAST

Sides: TypeAlias = tuple[int, int, int, int]
"""Columns left and right, rows above and below: the order of `torch.nn.functional.pad`."""


class Convolution(nn.Conv2d):
    """A convolution; sides: zeros added before, where opposite sides get different numbers of them."""

    sides: Sides | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[N, C', H', W'] of x [N, C, H, W]."""
        return super().forward(self.padded(x))

    def padded(self, x: Tensor) -> Tensor:
        """Tensor x [N, C, H, W] with the zeros of `sides`."""
        return x if self.sides is None else functional.pad(x, self.sides)


class StridedDepthwise(Convolution):
    """A depthwise convolution of a stride, in float32 also where the network computes in bfloat16.

    PyTorch 2.13 has no fast gradient of it in bfloat16 on x86-64.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H', W'] of x [N, C, H, W], in the type of x."""
        with torch.autocast("cpu", enabled=False):
            return super().forward(x.float()).to(x.dtype)


class StridedPointwise(Convolution):
    """A 1x1 convolution of a stride: one of stride 1, of the rows and columns that it reads.

    PyTorch 2.13 writes out of bounds in the gradient of a strided one whose inputs, channels last, do not fill a block
    of its library: 8 of them with AVX2 (https://github.com/uxlfoundation/oneDNN/issues/6035), at most 16 anywhere.
    """

    MOST_INPUTS = 15

    def forward(self, x: Tensor) -> Tensor:
        """[N, C', H / stride, W / stride] of x [N, C, H, W]."""
        rows, columns = self.stride
        return functional.conv2d(x[:, :, ::rows, ::columns], self.weight, self.bias, groups=self.groups)


class Operation(nn.Module):
    """A layer without weights."""

    def __init__(self, layer: FloatLayer) -> None:
        super().__init__()
        self.layer = layer

    def extra_repr(self) -> str:
        """The record of the layer."""
        return repr(self.layer)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The layer's output for its inputs, each [N, C, H, W]."""
        return _operate(self.layer, inputs)


def module_of(layer: FloatLayer) -> nn.Module:
    """The module of a layer, with the layer's weights; a dense layer reads [N, H * W * C] and gives [N, O]."""
    match layer:
        case Conv():
            return _with_state(_convolution(layer), weight=layer.real_weights.transpose(0, 3, 1, 2), bias=layer.bias)
        case Dense():
            outputs, inputs = layer.weights.shape
            linear = nn.Linear(inputs, outputs, layer.bias is not None, device="meta")
            return _with_state(linear, weight=layer.real_weights, bias=layer.bias)
        case BatchNorm():
            norm = nn.BatchNorm2d(len(layer.gamma), layer.eps, device="meta")
            arrays = {"weight": layer.gamma, "bias": layer.beta, "running_mean": layer.mean}
            return _with_state(norm, **arrays, running_var=layer.variance, num_batches_tracked=np.array(0))
    return Operation(layer)


def with_weights(layer: FloatLayer, module: nn.Module) -> FloatLayer:
    """The layer with the weights that its module has now."""
    if isinstance(layer, Weighted):
        weight, bias = _array(module.weight), module.bias
        weight = np.ascontiguousarray(weight.transpose(0, 2, 3, 1)) if isinstance(layer, Conv) else weight
        return replace(layer, weights=weight, bias=None if bias is None else _array(bias))
    if isinstance(layer, BatchNorm):
        gamma, beta, mean = (_array(each) for each in (module.weight, module.bias, module.running_mean))
        return replace(layer, gamma=gamma, beta=beta, mean=mean, variance=_array(module.running_var))
    return layer


def between(x: Tensor, axis: int, lower: NDArray[Any], upper: NDArray[Any], shares: Sequence[NDArray[Any]]) -> Tensor:
    """shares[0] * x[lower] + shares[1] * x[upper] along an axis of x [N, C, H, W]; all arrays: [output size]."""
    shape = [-1 if number == axis else 1 for number in range(x.ndim)]
    parts = (
        x.index_select(axis, torch.from_numpy(places.astype(np.int64))) * torch.from_numpy(share).to(x).reshape(shape)
        for places, share in zip((lower, upper), shares, strict=True)
    )
    return next(parts) + next(parts)


def sides(padding: Padding) -> Sides:
    """The padding of a record in PyTorch's order."""
    top, left, bottom, right = padding
    return left, right, top, bottom


def _operate(layer: FloatLayer, inputs: Sequence[Tensor]) -> Tensor:
    x = inputs[0]
    match layer:
        case Relu():
            return functional.relu(x) if layer.ceiling is None else functional.hardtanh(x, 0.0, layer.ceiling)
        case Add():
            return inputs[0] + inputs[1]
        case Product():
            return inputs[0] * inputs[1]
        case MaxPool():
            padded = functional.pad(x, sides(layer.padding), value=-torch.inf) if any(layer.padding) else x
            return functional.max_pool2d(padded, layer.kernel, layer.stride)
        case AveragePool():
            mean = functional.avg_pool2d(functional.pad(x, sides(layer.padding)), layer.kernel, layer.stride)
            if not layer.inside:
                return mean
            weights = layer.weights((x.shape[2], x.shape[3], x.shape[1]))
            return mean * torch.from_numpy(weights).to(x).permute(2, 0, 1)
        case GlobalAverage():
            return x.mean((2, 3), keepdim=True)
        case PRelu():
            return functional.prelu(x, torch.from_numpy(layer.slopes).to(x))
        case Function():
            return _function(layer, x)
        case ResizeBilinear():
            for axis in (2, 3):
                x = _resized(x, layer, axis)
            return x
        case MatMul():
            a, b = (each.permute(0, 2, 3, 1) for each in inputs)
            products: Tensor = layer.products(a, b)
            return (products * layer.factor).permute(0, 3, 1, 2)
        case Softmax():
            grouped = x.reshape(len(x), layer.groups, -1, *x.shape[2:])
            return torch.softmax(grouped, 2).flatten(1, 2)
        case LayerNorm():
            dims = (1, 2, 3) if layer.whole else (1,)
            variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
            gamma, beta = (torch.from_numpy(each).to(x)[:, None, None] for each in (layer.gamma, layer.beta))
            return (x - mean) * torch.rsqrt(variance + layer.eps) * gamma + beta
        case Constant():
            values = torch.from_numpy(layer.values).to(x).permute(2, 0, 1)
            return values.expand(len(x), *values.shape)
        case Concat():
            return torch.cat(list(inputs), 1)
        case Upsample():
            size = [int(length) * factor for length, factor in zip(x.shape[2:], layer.factor, strict=True)]
            return functional.interpolate(x, size, mode="nearest-exact")
        case Pad():  # a tensor that is filled in place is a constant of what is traced
            return functional.pad(_spaced(x, layer.spacing), sides(layer.padding))
        case ChannelShuffle():  # what other programs read of it, OpenVINO takes for another order as a Gather
            return torch.unflatten(x, 1, (layer.groups, -1)).transpose(1, 2).flatten(1, 2)
        case Moving():
            moved: Tensor = layer.move(x.permute(0, 2, 3, 1), fill=0.0)
            return moved.permute(0, 3, 1, 2)
    raise AssertionError(f"no operation for {type(layer).__name__}")


def _spaced(x: Tensor, spacing: tuple[int, int]) -> Tensor:
    """[N, C, H, W] with zeros between the elements, which are `spacing` apart; none behind the last."""
    rows, columns = (step - 1 for step in spacing)
    wide = functional.pad(x[:, :, :, None, :, None], (0, columns, 0, 0, 0, rows)).flatten(4).flatten(2, 3)
    return wide[:, :, : wide.shape[2] - rows, : wide.shape[3] - columns]


def _function(layer: Function, x: Tensor) -> Tensor:
    """As `layers.functions.evaluate`."""
    match layer.function:
        case "sigmoid":
            return torch.sigmoid(x)
        case "silu":
            return functional.silu(x)
        case "tanh":
            return torch.tanh(x)
        case "leaky_relu":
            return functional.leaky_relu(x, layer.alpha)
        case "elu":
            return functional.elu(x, layer.alpha)
        case "hard_sigmoid":
            return (layer.alpha * x + layer.beta).clamp(0, 1)
        case "hard_swish":
            return functional.hardswish(x)
        case "softplus":
            return functional.softplus(x)
        case "mish":
            return functional.mish(x)
        case "gelu":
            return functional.gelu(x)
        case "gelu_tanh":
            return functional.gelu(x, approximate="tanh")
        case "clip":
            return x.clamp(layer.alpha, layer.beta)
        case "abs":
            return x.abs()
        case "celu":
            return functional.celu(x, layer.alpha)
        case "exp":
            return x.clamp(max=GREATEST_EXPONENT).exp()
        case "log":
            return x.clamp(min=float(LEAST)).log()
        case "power":
            if not layer.alpha.is_integer():
                x = x.clamp(min=float(LEAST))
            elif layer.alpha < 0:
                x = torch.where(x == 0, float(LEAST), x)
            return x**layer.alpha
        case "selu":
            return functional.elu(x, layer.alpha) * layer.beta
        case "softsign":
            return functional.softsign(x)


def _resized(x: Tensor, layer: ResizeBilinear, axis: int) -> Tensor:
    places = bilinear_places(int(x.shape[axis]), layer.output.shape[axis - 2], layer.coordinates)
    lower = np.array([floor(place) for place in places])
    share = np.array([float(place - floor(place)) for place in places])
    return between(x, axis, lower, np.minimum(lower + 1, int(x.shape[axis]) - 1), (1 - share, share))


def _convolution(layer: Conv[Float32]) -> nn.Conv2d:
    """The module of a convolution: PyTorch's own, where that is fast and right; without weights yet."""
    outputs, rows, columns, per_group = layer.weights.shape
    inputs, (top, left, bottom, right) = per_group * layer.groups, layer.padding
    kind = Convolution
    if layer.stride != (1, 1) and layer.groups == inputs:
        kind = StridedDepthwise
    elif layer.stride != (1, 1) and rows * columns == 1 and inputs <= StridedPointwise.MOST_INPUTS:
        kind = StridedPointwise
    even = (top, left) == (bottom, right)
    padding, has_bias = (top, left) if even else (0, 0), layer.bias is not None
    where = torch.device("meta")
    module = kind(
        inputs, outputs, (rows, columns), layer.stride, padding, layer.dilation, layer.groups, has_bias, device=where
    )
    module.sides = None if even else sides(layer.padding)
    return module


def _with_state(module: nn.Module, **arrays: NDArray[Any] | None) -> nn.Module:
    """The module with copies of these arrays; nothing is drawn from PyTorch's generator."""
    state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items() if array is not None}
    module.load_state_dict(state, assign=True)
    return module


def _array(tensor: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().to("cpu").float().numpy())
