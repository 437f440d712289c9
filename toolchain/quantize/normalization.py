"""Integers of softmax and of layer normalization, from real numbers and the types of their tensors."""

import math

import numpy as np

from edgemeta.model.layers import LayerNorm, Normalize, Softmax, TensorType
from edgemeta.model.layers.attention import EXPONENTIAL_BITS, MULTIPLIER_BITS
from edgemeta.model.layers.normalize import MOST_EPSILON, NORMAL_BITS
from edgemeta.toolchain.quantize.scales import INT32_MAX, int32_bias, multiplier_for

_BIAS_ROOM, _SUM_ROOM = 2**29, 2**30
"""Greatest bias, and greatest product beside it, of an int32 accumulator."""
_LEAST_SCALE = 1e-12


def softmax_layer(core: Softmax, source: TensorType, out: TensorType) -> Softmax:
    """exp(-scale * t) of the input's scale for t = 0 .. 255, half up, and 1 / the output's scale."""
    powers = np.floor(np.exp(-source.scale * np.arange(256)) * 2.0**EXPONENTIAL_BITS + 0.5).astype(np.int32)
    multiplier = min(math.floor(2**MULTIPLIER_BITS / out.scale + 0.5), INT32_MAX)
    return Softmax(core.name, core.input, out, groups=core.groups, exponentials=powers, multiplier=multiplier)


def normalize_layer(core: LayerNorm, source: TensorType, out: TensorType) -> Normalize:
    """Each channel has a scale of its own: its factor is 127 where its bias leaves room. Raises QuantizeError."""
    count = math.prod(source.shape) if core.whole else source.shape[2]
    greatest = min(127, _SUM_ROOM // ((math.isqrt(count) + 1) << NORMAL_BITS))
    gamma, beta = core.gamma.astype(np.float64), core.beta.astype(np.float64)
    scale = np.maximum(np.abs(gamma) / greatest, np.abs(beta) * 2.0**NORMAL_BITS / _BIAS_ROOM)
    scale = np.maximum(scale, _LEAST_SCALE)
    units = scale * 2.0**-NORMAL_BITS
    epsilon = min(max(math.floor(count**2 * core.eps / source.scale**2 + 0.5), 1), MOST_EPSILON)
    return Normalize(
        core.name,
        core.input,
        out,
        epsilon=epsilon,
        factors=np.floor(gamma / scale + 0.5).astype(np.int8),
        scale=scale,
        bias=int32_bias(beta / units, core.name),
        requantize=multiplier_for(units / out.scale, out.lo, out.hi, core.name),
        whole=core.whole,
    )
