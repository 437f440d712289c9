"""Functions of one element with the same float64 bits on every machine; `functions` has them for float networks.

Only `+ - * /`, comparisons, floor and scaling by powers of two are used, in the order written and each rounded by
itself, as IEEE 754 defines them; no function of a mathematical library, which differ from one to the next. With
c = max(1, |alpha|) each result is within 2**-48 c (1 + |x|) of the function of its x.
"""

import math

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

EXACT = (
    *("sigmoid", "silu", "tanh", "leaky_relu", "elu", "hard_sigmoid", "hard_swish", "softplus", "mish", "clip"),
    *("gelu", "gelu_tanh"),
)
"""The functions that have such bits."""
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""Their sum is ln 2; the first has 32 bits, so that its products with integers of 20 bits are exact."""
_PER_LN2 = float.fromhex("0x1.71547652b82fep+0")
_GREATEST_EXPONENT = 700.0
_FACTORS = [1 / math.factorial(n) for n in range(14)]
"""Of exp: 1 / n!, nearest float64."""
_ODD = [1 / (2 * n + 1) for n in range(18)]
"""Of the logarithm: 1 / (2 n + 1), nearest float64."""
_NORMAL = [1 / math.prod(range(1, 2 * n + 2, 2)) for n in range(130)]
"""Of the normal distribution: 1 / (1 * 3 * .. (2 n + 1)), nearest float64."""
_GREATEST_NORMAL = 8.0
_PER_ROOT_2_PI = float.fromhex("0x1.9884533d43651p-2")
_ROOT_2_PER_PI = float.fromhex("0x1.9884533d43651p-1")
"""The square roots of 1 / (2 pi) and 2 / pi."""


def evaluate_exactly(function: str, x: Float64, alpha: float = 0.0, beta: float = 0.0) -> Float64:
    """f(x) [...] of finite x [...]; f is one of EXACT, it and alpha and beta as `functions.evaluate` has them."""
    match function:
        case "sigmoid":
            return _sigmoid(x)
        case "silu":
            return x * _sigmoid(x)
        case "tanh":
            power = _exp(-2 * np.abs(x))
            return np.copysign((1 - power) / (1 + power), x)
        case "leaky_relu":
            return np.where(x >= 0, x, alpha * x)
        case "elu":
            return np.where(x >= 0, x, alpha * (_exp(np.minimum(x, 0)) - 1))
        case "hard_sigmoid":
            return _hard_sigmoid(x, alpha, beta)
        case "hard_swish":
            return x * _hard_sigmoid(x, 1 / 6, 0.5)
        case "softplus":
            return np.maximum(x, 0) + _log_1_plus(_exp(-np.abs(x)))
        case "mish":
            return x * _tanh_of_softplus(x)
        case "clip":
            return np.minimum(np.maximum(x, alpha), beta)
        case "gelu":
            return x * _normal_share(x)
        case "gelu_tanh":
            return x * _sigmoid(2 * (_ROOT_2_PER_PI * (x + 0.044715 * x * x * x)))
    raise AssertionError(function)


def _exp(x: Float64) -> Float64:
    """2**k times the polynomial in r, where x = k ln 2 + r; x is limited to +-700."""
    x = np.minimum(np.maximum(x, -_GREATEST_EXPONENT), _GREATEST_EXPONENT)
    k = np.floor(x * _PER_LN2 + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    return np.ldexp(_polynomial(r, _FACTORS), k.astype(np.int32))


def _log_1_plus(t: Float64) -> Float64:
    """ln(1 + t) = 2 (s + s**3 / 3 + s**5 / 5 + ..), s = t / (2 + t), for t = 0 .. 1."""
    s = t / (2 + t)
    return 2 * s * _polynomial(s * s, _ODD)


def _normal_share(x: Float64) -> Float64:
    """Of the standard normal distribution below x, limited to +-8: 1/2 + density(x) (x + x**3 / 3 + x**5 / 15 + ..)."""
    x = np.minimum(np.maximum(x, -_GREATEST_NORMAL), _GREATEST_NORMAL)
    square = x * x
    return 0.5 + _PER_ROOT_2_PI * _exp(-0.5 * square) * x * _polynomial(square, _NORMAL)


def _polynomial(x: Float64, factors: list[float]) -> Float64:
    """The sum of factors[n] * x**n, from the last factor on."""
    total = np.full_like(x, factors[-1])
    for factor in factors[-2::-1]:
        total *= x
        total += factor
    return total


def _sigmoid(x: Float64) -> Float64:
    power = _exp(-np.abs(x))
    return np.where(x >= 0, 1.0, power) / (1 + power)


def _hard_sigmoid(x: Float64, alpha: float, beta: float) -> Float64:
    return np.minimum(np.maximum(alpha * x + beta, 0.0), 1.0)


def _tanh_of_softplus(x: Float64) -> Float64:
    """With e = exp(-|x|): (1 + 2 e) / (1 + 2 e + 2 e**2) for x >= 0, else (e**2 + 2 e) / (e**2 + 2 e + 2)."""
    power = _exp(-np.abs(x))
    square = power * power
    above = 1 + 2 * power
    below = square + 2 * power
    return np.where(x >= 0, above, below) / np.where(x >= 0, above + 2 * square, below + 2)
