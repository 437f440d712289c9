"""Sums of integer products in an accumulator of a few bits.

A layer's operands are integers times a step of its activation and of its weights (of each output channel). The sum of
their products is exact, so no order of additions changes it. It overflows once, when it is complete: it wraps, or it
saturates. What is held is multiplied by both steps, in float64, and becomes float32 before the bias is added.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.library import custom_op
from torch.nn import functional

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Accumulator, FixedPoint, Format, Integer, PowerOfTwo, name_of
from edgemeta.toolchain.simulate.operators import finite_range
from edgemeta.toolchain.simulate.quantizer import Quantizer, Statistics
from edgemeta.toolchain.torch_layers import Convolution

_FLOAT32_EXACT, _FLOAT64_EXACT = 2**24, 2**53

AccumulatingLayer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear


class Accumulation(nn.Module):
    """The accumulator of one layer. statistics: collected while it is not None; `limited` counts what overflowed."""

    role: Literal["accumulator"] = "accumulator"

    def __init__(self, kind: Accumulator) -> None:
        super().__init__()
        self.kind = kind
        self.statistics: Statistics | None = None

    def forward(self, layer: AccumulatingLayer, output: Tensor, activation: Quantizer, weight: Quantizer) -> Tensor:
        """What the layer gives instead of `output` [N, O, ...], its float32 sums, to which the gradient goes."""
        (x, x_step), (weights, weight_step) = activation.take(), weight.take()
        x, geometry = _geometry(layer, x)
        bias = None if layer.bias is None else layer.bias.detach()
        saturates = self.kind.overflow == "saturate"
        y: Tensor
        y, inside = held_sums(output, x, x_step, weights, weight_step, bias, *geometry, self.kind.bits, saturates)
        if self.statistics is not None:
            self._count(self.statistics, y.detach(), inside)
        return y

    @staticmethod
    def _count(statistics: Statistics, y: Tensor, inside: Tensor) -> None:
        statistics.widen(*finite_range(y).tolist())
        statistics.elements += y.numel()
        statistics.limited += y.numel() - int(inside.sum())

    def extra_repr(self) -> str:
        """The format."""
        return repr(self.kind)


def check_accumulator(place: str, name: str, layer: nn.Module, formats: dict[str, Format]) -> None:
    """Raise SimulateError if a layer's sums are not those of integers, or too great to be simulated.

    place: of the rule, for the message. formats: of the layer, by role.
    """
    expected = {"activation": "`int` that is not per channel, `fixed` or `power_of_two`"}
    expected["weight"] = "`int`, `fixed` or `power_of_two`"
    if not isinstance(layer, AccumulatingLayer):
        raise SimulateError(
            f"{place}: layer {name!r} is a {type(layer).__name__}, expected a convolution or a linear layer for an "
            "accumulator"
        )
    products = layer.weight[0].numel()
    for role, wanted in expected.items():
        kind = formats.get(role)
        if not isinstance(kind, Integer | FixedPoint | PowerOfTwo) or (
            role == "activation" and isinstance(kind, Integer) and kind.per_channel
        ):
            found = "float32" if kind is None else name_of(kind)
            raise SimulateError(
                f"{place}: layer {name!r} has an accumulator of integers, but its {role} is {found}, expected {wanted}"
            )
        products *= _greatest(kind)
    if products >= _FLOAT64_EXACT:
        raise SimulateError(
            f"{place}: the sums of layer {name!r} can be as great as {products:.2g}, expected formats of fewer bits, "
            "with sums below 2**53"
        )


@custom_op("edgemeta::held_sums", mutates_args=())
def held_sums(
    output: Tensor,
    x: Tensor,
    x_step: Tensor,
    weight: Tensor,
    weight_step: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    bits: int,
    saturates: bool,
) -> tuple[Tensor, Tensor]:
    """The layer's output with its sums held in `bits` bits, like `output`, and which sums did not overflow, bool.

    output: the same by float32 sums; NaN stays. x, weight: multiples of x_step [1], and of weight_step [1 or output
    channels]. stride, padding, dilation, groups: of a convolution; an empty stride: of a linear layer.
    """
    channels = [-1] + [1] * (0 if not stride else x.ndim - 2)
    with torch.autocast(x.device.type, enabled=False):
        sums = _sums(_integers(x, x_step), _integers(weight, weight_step), stride, padding, dilation, groups)
        held = _held(sums, bits, saturates)
        steps = x_step.to(torch.float64) * weight_step.to(torch.float64)
        y = (held.to(torch.float64) * steps.reshape(channels)).to(torch.float32)
        if bias is not None:
            y = y + bias.reshape(channels)
    found, inside = torch.empty_like(output), torch.empty_like(output, dtype=torch.bool)
    return found.copy_(torch.where(output.isnan(), output, y)), inside.copy_(held == sums)


@held_sums.register_fake
def _(output: Tensor, *_others: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(output), torch.empty_like(output, dtype=torch.bool)


def _gradient_inside(ctx: Any, gradient: Tensor, _: object) -> tuple[Tensor | None, ...]:
    """To `output`: nothing where a sum saturated, straight through elsewhere, also where it wrapped."""
    if ctx.saved_tensors:
        gradient = torch.where(ctx.saved_tensors[0], gradient, 0.0)
    return gradient, *[None] * 11


def _save_inside(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    inside, saturates = output[1], inputs[-1]
    ctx.mark_non_differentiable(inside)
    if saturates:
        ctx.save_for_backward(inside)


held_sums.register_autograd(_gradient_inside, setup_context=_save_inside)


def _geometry(layer: AccumulatingLayer, x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
    """x, padded unless the layer's padding is of zeros, the same on both sides; stride, padding, dilation, groups."""
    if isinstance(layer, nn.Linear):
        return x, ([], [], [], 1)
    x = layer.padded(x) if isinstance(layer, Convolution) else x
    padding = layer.padding
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = functional.pad(x, layer._reversed_padding_repeated_twice, mode)
        padding = (0,) * (x.ndim - 2)
    return x, (layer.stride, padding, layer.dilation, layer.groups)


def _integers(x: Tensor, step: Tensor) -> Tensor:
    """The whole numbers that x is of its step, float64; 0 for NaN. step: [1], or one for each x[i]."""
    shape = [-1] + [1] * (x.ndim - 1)
    return torch.round(x.to(torch.float64) / step.to(torch.float64).reshape(shape)).nan_to_num(0.0)


def _sums(
    x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Tensor:
    """The exact sums, int64: by float32 where that cannot round them, else by float64."""
    greatest = x.abs().amax() * weight.abs().flatten(1).sum(1).amax() if x.numel() else x.new_zeros(())
    if x.device.type == "cpu" and torch.get_float32_matmul_precision() == "highest" and greatest < _FLOAT32_EXACT:
        x, weight = x.to(torch.float32), weight.to(torch.float32)
    if not stride:
        return functional.linear(x, weight).to(torch.int64)
    found: Tensor = torch.ops.aten.convolution(x, weight, None, stride, padding, dilation, False, [0], groups)
    return found.to(torch.int64)


def _held(sums: Tensor, bits: int, saturates: bool) -> Tensor:
    """The sums as integers of `bits` bits in two's complement."""
    half = 1 << bits - 1
    return sums.clamp(-half, half - 1) if saturates else ((sums + half) & (2 * half - 1)) - half


def _greatest(kind: Integer | FixedPoint | PowerOfTwo) -> int:
    """The greatest magnitude of its integers, less the zero point."""
    if isinstance(kind, PowerOfTwo):
        return 1 << (1 << kind.bits - 2) - 1
    return (1 << kind.bits) - 1 if isinstance(kind, Integer) else 1 << kind.bits - 1
