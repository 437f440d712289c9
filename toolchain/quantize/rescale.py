"""Rescales the weights of a float network, without changing it, to fit the paper's fixed fraction bits.

Multiplying a convolution's weights of one output channel by s, together with the mean (by s) and the variance (by s^2)
of its batch norm, does not change the float network. With Q5 weights and Q3 sums, s determines the loss: with a small s
the weights span few quantization steps, with a large s the sums saturate. So s is chosen per channel such that the
expected square error is least.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import BatchNorm, Conv, Float32, FloatLayer, Weighted
from edgemeta.toolchain.quantize.blocks import blocks_of

_FACTORS = 2.0 ** np.arange(-8, 8.01, 0.125)


def rescaled(model: FloatModel, weight_bits: int, sum_bits: int) -> FloatModel:
    """The network with every convolution before a batch norm rescaled for Qweight_bits weights and Qsum_bits sums.

    Before the batch norm, a channel is assumed to be normally distributed with the batch norm's mean and variance, and
    all inputs to have the same mean square. eps of the batch norm is added to the variance, so that the network stays
    the same up to float32 rounding.
    """
    changed: dict[str, FloatLayer] = {}
    sources = {x.name: x.input for x in model.layers if isinstance(x, Weighted)}  # blocks rename it
    for block in blocks_of(model):
        core, norm = block.core, block.norm
        if isinstance(core, Conv) and norm is not None and core.name != norm.name:
            s = np.array(
                [_best(w, norm, c, block.relu is not None, (weight_bits, sum_bits)) for c, w in enumerate(core.weights)]
            )
            changed[core.name] = replace(_scaled_conv(core, s), input=sources[core.name])
            changed[norm.name] = _scaled_norm(norm, s)
    return replace(model, layers=tuple(changed.get(x.name, x) for x in model.layers))


def _scaled_conv(conv: Conv[Float32], s: NDArray[np.float64]) -> Conv[Float32]:
    """Weights and bias times s [O]."""
    weight = (conv.weights * s.reshape(-1, 1, 1, 1)).astype(np.float32)
    return replace(conv, weights=weight, bias=None if conv.bias is None else (conv.bias * s).astype(np.float32))


def _scaled_norm(norm: BatchNorm, s: NDArray[np.float64]) -> BatchNorm:
    variance = ((norm.variance.astype(np.float64) + norm.eps) * s**2).astype(np.float32)
    return replace(norm, mean=(norm.mean * s).astype(np.float32), variance=variance, eps=0.0)


def _dead_zone(norm: BatchNorm, c: int, relu: bool) -> tuple[float, float]:
    """Bounds of the sums: below the first and above the second, the ReLU gives 0, so clamping there is harmless."""
    gamma, sigma = float(norm.gamma[c]), math.sqrt(float(norm.variance[c]) + norm.eps)
    if not relu or gamma == 0.0:
        return -math.inf, math.inf
    zero = float(norm.mean[c]) - float(norm.beta[c]) * sigma / gamma
    return (zero, math.inf) if gamma > 0 else (-math.inf, zero)


def _best(weight: NDArray[np.float32], norm: BatchNorm, c: int, relu: bool, bits: tuple[int, int]) -> float:
    """The factor s of channel c with weights [KH, KW, I]; bits: fraction bits of weights and sums."""
    w = weight.astype(np.float64).ravel()
    mean, sigma = float(norm.mean[c]), math.sqrt(float(norm.variance[c]) + norm.eps)
    energy = float(np.square(w).sum())
    if energy == 0.0 or sigma == 0.0:
        return 1.0
    per_input = (sigma**2 + mean**2) / energy  # mean square of one input, were all alike
    low, high = _dead_zone(norm, c, relu)
    costs = []
    for s in _FACTORS.tolist():
        step = 2.0 ** -bits[0] / s
        rounded = np.clip(np.floor(w / step + 0.5), -128, 127) * step
        unit = 2.0 ** -bits[1] / s
        beyond = 0.0 if 127 * unit >= high else _excess((127 * unit - mean) / sigma)
        beyond += 0.0 if -128 * unit <= low else _excess((128 * unit + mean) / sigma)
        costs.append(float(np.square(w - rounded).sum()) * per_input + unit**2 / 12 + sigma**2 * beyond)
    return float(_FACTORS[int(np.argmin(costs))])


def _excess(z: float) -> float:
    """E[max(x - z, 0)^2] for a standard normal x: (1 + z^2) Q(z) - z phi(z)."""
    tail = 0.5 * math.erfc(z / math.sqrt(2))
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return max((1 + z * z) * tail - z * density, 0.0)
