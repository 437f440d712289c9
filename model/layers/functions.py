"""Functions of one element, as activations of networks: float32 in, float32 out."""

import math
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Float32: TypeAlias = NDArray[np.float32]
FunctionName = Literal[
    "sigmoid",
    "silu",
    "tanh",
    "leaky_relu",
    "elu",
    "hard_sigmoid",
    "hard_swish",
    "softplus",
    "mish",
    "clip",
    "abs",
    "celu",
    "exp",
    "log",
    "power",
    "selu",
    "softsign",
    "gelu",
    "gelu_tanh",
]

LEAST = np.finfo(np.float32).tiny
"""Stands for 0, and for what is below, where a function has no finite number of it."""
GREATEST_EXPONENT = 88.0
"""Greatest whole number whose exp is a float32."""
_BLOCK = 1 << 16
"""Numbers that are computed at a time: they and what is computed from them stay in the cache."""


def _sigmoid(x: Float32, numerator: Float32 | float = 1.0) -> Float32:
    """Give numerator / (1 + exp(-x)), without overflow."""
    power = np.maximum(x, np.float32(-GREATEST_EXPONENT))
    np.negative(power, out=power)
    np.exp(power, out=power)
    power += np.float32(1)
    result: Float32 = np.divide(numerator, power, out=power)
    return result


def _softplus(x: Float32) -> Float32:
    result: Float32 = np.logaddexp(np.float32(0), x)
    return result


def _leaky_relu(x: Float32, alpha: float) -> Float32:
    result: Float32 = np.where(x >= 0, x, np.float32(alpha) * x)
    return result


def _elu(x: Float32, alpha: float) -> Float32:
    result: Float32 = np.where(x >= 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0)))
    return result


def _hard_sigmoid(x: Float32, alpha: float, beta: float) -> Float32:
    result: Float32 = np.clip(np.float32(alpha) * x + np.float32(beta), np.float32(0), np.float32(1))
    return result


def _softsign(x: Float32) -> Float32:
    result: Float32 = x / (1 + np.abs(x))
    return result


def _power(x: Float32, exponent: float) -> Float32:
    if not exponent.is_integer():
        x = np.maximum(x, LEAST)
    elif exponent < 0:
        x = np.where(x == 0, LEAST, x)
    result: Float32 = np.power(x, np.float32(exponent))
    return result


_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223),
    0.17087277,
)
"""Chebyshev's fit of Press et al., Numerical Recipes: erfc(z) within 1.2e-7 of itself for z >= 0."""


def _gelu(x: Float32) -> Float32:
    """Give x times the normal distribution's share below x, erfc(-x / sqrt(2)) / 2."""
    z = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.5) * z)
    exponent = np.polynomial.polynomial.polyval(t, np.array(_ERFC, np.float32)) - z * z
    tail = np.float32(0.5) * t * np.exp(exponent)
    result: Float32 = x * np.where(x >= 0, 1 - tail, tail)
    return result


def _gelu_tanh(x: Float32) -> Float32:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: Float32 = np.float32(0.5) * x * (1 + np.tanh(inner))
    return result


FUNCTIONS: tuple[FunctionName, ...] = get_args(FunctionName)


def evaluate(function: FunctionName, x: Float32, alpha: float = 0.0, beta: float = 0.0) -> Float32:
    """f(x) [...] of x [...]; alpha and beta count for some.

    leaky_relu, elu and celu: alpha. hard_sigmoid: clip(alpha * x + beta, 0, 1). clip: alpha is the least, beta the
    greatest. selu: beta * elu(x, alpha). power: x ** alpha; it and log
    take `LEAST` for what they are not defined for. exp: of `GREATEST_EXPONENT` at most.
    """
    if x.size <= _BLOCK:
        return _evaluate(function, x, alpha, beta)
    flat = np.ascontiguousarray(x).reshape(-1)
    parts = [_evaluate(function, flat[i : i + _BLOCK], alpha, beta) for i in range(0, flat.size, _BLOCK)]
    return np.concatenate(parts).reshape(x.shape)


def _evaluate(function: FunctionName, x: Float32, alpha: float, beta: float) -> Float32:
    match function:
        case "sigmoid":
            return _sigmoid(x)
        case "silu":
            return _sigmoid(x, x)
        case "tanh":
            return np.tanh(x)
        case "leaky_relu":
            return _leaky_relu(x, alpha)
        case "elu":
            return _elu(x, alpha)
        case "hard_sigmoid":
            return _hard_sigmoid(x, alpha, beta)
        case "hard_swish":
            return x * _hard_sigmoid(x, 1 / 6, 0.5)
        case "softplus":
            return _softplus(x)
        case "mish":
            return x * np.tanh(_softplus(x))
        case "clip":
            return np.clip(x, np.float32(alpha), np.float32(beta))
        case "abs":
            return np.abs(x)
        case "celu":
            return _elu(x / np.float32(alpha), 1.0) * np.float32(alpha)
        case "exp":
            return np.exp(np.minimum(x, np.float32(GREATEST_EXPONENT)))
        case "log":
            return np.log(np.maximum(x, LEAST))
        case "power":
            return _power(x, alpha)
        case "selu":
            return np.float32(beta) * _elu(x, alpha)
        case "softsign":
            return _softsign(x)
        case "gelu":
            return _gelu(x)
        case "gelu_tanh":
            return _gelu_tanh(x)
