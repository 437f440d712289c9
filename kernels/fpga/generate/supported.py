"""Which layers the engines can run; the rest is refused by name, with the reason."""

from collections.abc import Sequence

import numpy as np

from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Conv,
    Dense,
    Layer,
    Multiplier,
    Requantize,
    TensorType,
)
from edgemeta.model.weights import BinaryWeights

_KERNELS = ((1, 1), (3, 3))


def unsupported(layer: Layer, inputs: Sequence[TensorType]) -> str | None:
    """Reason why the engines cannot run a layer of a proved model, or None."""
    match layer:
        case Conv():
            return _conv(layer) or _weights(layer) or _requantize(layer.requantize)
        case Dense():
            return _weights(layer) or _requantize(layer.requantize)
        case AveragePool():
            if layer.kernel != inputs[0].shape[:2] or any(layer.padding):
                return "AveragePool is supported for the whole map only, without padding"
            return _requantize(layer.requantize)
        case Add():
            bad = [m for m in layer.multipliers if m & (m - 1)]
            return _multiplies("Add", bad[0]) if bad else None
        case Clamp():
            return None
        case _:
            return f"{type(layer).__name__} is not supported"


def _conv(layer: Conv) -> str | None:
    kernel = layer.weights.shape[1:3]
    if kernel not in _KERNELS:
        return f"Conv has a kernel of {kernel[0]}x{kernel[1]}, supported are 1x1 and 3x3"
    if layer.stride not in ((1, 1), (2, 2)):
        return f"Conv has a stride of {layer.stride[0]}, {layer.stride[1]}, supported are 1, 1 and 2, 2"
    if layer.groups != 1:
        return f"Conv has {layer.groups} groups, supported is 1"
    if layer.dilation != (1, 1):
        return "Conv has a dilation, which is not supported"
    return None


def _weights(layer: Conv | Dense) -> str | None:
    if isinstance(layer.weights, BinaryWeights):
        return "binary weights are not supported; power-of-two and fixed ones are"
    return None


def _requantize(requantize: Requantize | None) -> str | None:
    if not isinstance(requantize, Multiplier):
        return None
    multipliers = requantize.multiplier.astype(np.int64)
    bad = multipliers[(multipliers & (multipliers - 1) != 0) | (multipliers == 0)]
    if bad.size:
        return _multiplies("requantization", bad[0])
    exponents = np.log2(multipliers).astype(np.int64)
    shifts = requantize.shift.astype(np.int64) - exponents
    if (shifts < 0).any():
        return "requantization enlarges accumulators"
    if (shifts > 31).any():
        return f"requantization shifts by {int(shifts.max())} bits, supported are up to 31"
    return None


def _multiplies(what: str, factor: int) -> str:
    return (
        f"{what} multiplies by {factor}, which is no power of two; edgemeta quantize --scheme incremental makes "
        "networks that do not multiply"
    )
