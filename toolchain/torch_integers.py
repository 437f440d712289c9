"""The integer layers of a model file in PyTorch, with gradients: what the device computes, as tensors to train through.

Values are whole numbers in float64 tensors, [N, C, H, W]: exact, as `prove` bounds every accumulator far below 2**53.
The result of each function is that of `model.reference`, bit for bit. Rounding passes the gradient straight through;
clamping ends it outside of its limits.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Constant,
    Conv,
    Dense,
    Layer,
    Lookup,
    MatMul,
    MaxPool,
    Moving,
    Multiplier,
    Normalize,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    Softmax,
    TensorType,
)
from edgemeta.model.layers.attention import MULTIPLIER_BITS
from edgemeta.model.layers.bilinear import BILINEAR_BITS, bilinear_axis
from edgemeta.model.layers.normalize import NORMAL_BITS
from edgemeta.toolchain.torch_layers import between, sides


def run_layer(
    layer: Layer, tensors: dict[str, Tensor], types: Mapping[str, TensorType], weights: Tensor | None
) -> Tensor:
    """The output of a layer; tensors [N, C, H, W], types: by name. weights: whole numbers as the layer decodes them."""
    names = layer.sources
    values = [tensors[name] for name in names]
    x, zero_point = values[0], types[names[0]].zero_point
    match layer:
        case Conv():
            assert weights is not None
            padded = functional.pad(x - zero_point, sides(layer.padding))
            sums = functional.conv2d(
                padded, weights.permute(0, 3, 1, 2), None, layer.stride, 0, layer.dilation, layer.groups
            )
            return _requantized(sums + _bias(layer, x), layer.requantize, layer.output)
        case Dense():
            assert weights is not None
            columns = (x - zero_point).permute(0, 2, 3, 1).flatten(1)
            sums = functional.linear(columns, weights)[:, :, None, None]
            return _requantized(sums + _bias(layer, x), layer.requantize, layer.output)
        case Add():
            a, b = (tensors[name] - types[name].zero_point for name in names)
            weighted = layer.multipliers[0] * a + layer.multipliers[1] * b
            return (_shifted(weighted, layer.shift) + layer.output.zero_point).clamp(layer.lo, layer.hi)
        case Clamp():
            return x.clamp(layer.lo, layer.hi)
        case Rescale():
            return _requantized(x - zero_point, layer.requantize, layer.output)
        case MaxPool():
            padded = functional.pad(x, sides(layer.padding), value=types[names[0]].lo)
            return functional.max_pool2d(padded, layer.kernel, layer.stride)
        case AveragePool():
            padded = functional.pad(x - zero_point, sides(layer.padding))
            sums = functional.avg_pool2d(padded, layer.kernel, layer.stride, divisor_override=1)
            sums = sums * torch.from_numpy(layer.factors(types[names[0]].shape)).to(sums).permute(2, 0, 1)
            return _requantized(sums, layer.requantize, layer.output)
        case Lookup():
            return _looked_up(layer.entries, x, -128 if types[names[0]].signed else 0)
        case Product():
            factors = (x - zero_point) * (values[1] - types[names[1]].zero_point)
            return _requantized(factors, layer.requantize, layer.output)
        case Moving():
            moved: Tensor = layer.move(*(value.permute(0, 2, 3, 1) for value in values), fill=layer.output.zero_point)
            return moved.permute(0, 3, 1, 2)
        case ResizeBilinear():
            sums = x
            for axis in (0, 1):
                places = bilinear_axis(x.shape[axis + 2], layer.output.shape[axis], layer.coordinates)
                shares = (1 << BILINEAR_BITS) - places.weight, places.weight
                sums = between(sums, axis + 2, places.lower, places.upper, shares)
            return _shifted(sums, 2 * BILINEAR_BITS)
        case MatMul():
            a, b = ((tensors[name] - types[name].zero_point).permute(0, 2, 3, 1) for name in names)
            products: Tensor = layer.products(a, b)
            return _requantized(products.permute(0, 3, 1, 2), layer.requantize, layer.output)
        case Constant():
            constant = torch.from_numpy(layer.values.astype(np.float64)).to(x.device).permute(2, 0, 1)
            return constant.expand(len(x), *constant.shape)
        case Softmax():
            grouped = (x * types[names[0]].scale).reshape(len(x), layer.groups, -1, *x.shape[2:])
            real = torch.softmax(grouped, 2).reshape(x.shape) * (layer.multiplier / 2.0**MULTIPLIER_BITS)
            return _exactly(layer, (real + layer.output.zero_point).clamp(layer.output.lo, layer.output.hi), x, types)
        case Normalize():
            dims = (1, 2, 3) if layer.whole else (1,)
            variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
            count = math.prod(x.shape[axis] for axis in dims)
            normal = (x - mean) * torch.rsqrt(variance + layer.epsilon / count**2) * 2.0**NORMAL_BITS
            factors, bias = (torch.from_numpy(each).to(x)[:, None, None] for each in (layer.factors, layer.bias))
            return _exactly(layer, _requantized(normal * factors + bias, layer.requantize, layer.output), x, types)
    raise AssertionError(f"{type(layer).__name__} has an equivalent")


def _exactly(layer: Softmax | Normalize, near: Tensor, x: Tensor, types: Mapping[str, TensorType]) -> Tensor:
    """The layer's integers in the place of numbers near them, whose gradient counts."""
    source = types[layer.input]
    given = x.detach().cpu().permute(0, 2, 3, 1).numpy().astype(source.dtype)
    exact = torch.from_numpy(layer.integers([given], [source]).astype(np.float64)).to(x.device)
    placed: Tensor = _Instead.apply(near, exact.permute(0, 3, 1, 2))  # type: ignore[no-untyped-call]
    return placed


class _Instead(Function):
    """The second tensor; the gradient is the first one's."""

    @staticmethod
    def forward(_ctx: Any, _near: Tensor, exact: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Shift(Function):
    """(accumulator * multiplier + 2**(shift-1)) >> shift in int64; the gradient is multiplier / 2**shift."""

    @staticmethod
    def forward(ctx: Any, accumulators: Tensor, multipliers: Tensor, shifts: Tensor) -> Tensor:
        ctx.save_for_backward(multipliers / 2.0**shifts)
        products = accumulators.to(torch.int64) * multipliers
        halves = torch.where(shifts > 0, torch.ones_like(shifts) << (shifts - 1).clamp(min=0), 0)
        return ((products + halves) >> shifts).to(torch.float64)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (factors,) = ctx.saved_tensors
        return gradient * factors, None, None


class _Table(Function):
    """Entries of a table; the gradient is the slope between the neighbouring entries."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, least: int) -> Tensor:
        channels = torch.arange(x.shape[1]) if len(table) > 1 else torch.zeros(1, dtype=torch.int64)
        rows, columns = channels.reshape(1, -1, 1, 1), x.to(torch.int64) - least
        upper, lower = table[rows, (columns + 1).clamp(max=255)], table[rows, (columns - 1).clamp(min=0)]
        ctx.save_for_backward((upper - lower).to(torch.float64) / 2)
        return table[rows, columns].to(torch.float64)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return gradient * slopes, None, None


def _requantized(accumulators: Tensor, requantize: Requantize | None, output: TensorType) -> Tensor:
    if requantize is None:
        return accumulators
    if isinstance(requantize, Multiplier):
        rounded = _shifted(accumulators, requantize.shift, requantize.multiplier)
        return (rounded + output.zero_point).clamp(requantize.lo, requantize.hi)
    return _looked_up(requantize.table, _shifted(accumulators, requantize.shift).clamp(-128, 127), -128)


def _shifted(accumulators: Tensor, shift: Any, multiplier: Any = 1) -> Tensor:
    """round(accumulator * multiplier, shift), of the layer or of each channel."""
    channels = (
        torch.from_numpy(np.array(each, np.int64)).reshape(1, -1, 1, 1).to(accumulators.device)
        for each in (multiplier, shift)
    )
    rounded: Tensor = _Shift.apply(accumulators, *channels)  # type: ignore[no-untyped-call]
    return rounded


def _looked_up(table: Any, x: Tensor, least: int) -> Tensor:
    entries = torch.from_numpy(table.astype("int64"))
    found: Tensor = _Table.apply(x, entries, least)  # type: ignore[no-untyped-call]
    return found


def _bias(layer: Conv | Dense, like: Tensor) -> Tensor:
    if layer.bias is None:
        return like.new_zeros(1)
    return torch.from_numpy(layer.bias.astype("float64")).reshape(1, -1, 1, 1)
