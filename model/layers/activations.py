"""Layers of float networks that become a part of another layer, a Clamp, Rescale or Lookup, in an integer network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgemeta.model.layers.bounds import prove_finite
from edgemeta.model.layers.functions import FUNCTIONS, FunctionName, evaluate
from edgemeta.model.layers.operator import Real
from edgemeta.model.layers.types import Float32, Shape
from edgemeta.model.require import require, require_array


@dataclass(frozen=True, eq=False)
class BatchNorm(Real):
    """y[c] = gamma[c] * (x[c] - mean[c]) / sqrt(variance[c] + eps) + beta[c]; all [C]."""

    kind = "batch_norm"

    name: str
    input: str
    gamma: Float32
    beta: Float32
    mean: Float32
    variance: Float32
    eps: float = 1e-5

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        for what in ("gamma", "beta", "mean", "variance"):
            require_array(getattr(self, what), np.float32, ((inputs[0][2],),), what)
            prove_finite(getattr(self, what), what)
        is_positive = bool(np.isfinite(self.eps)) and self.eps >= 0 and float(self.variance.min()) + self.eps > 0
        require(is_positive, "variance + eps must be positive")
        return inputs[0]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        factor = self.gamma / np.sqrt(self.variance + np.float32(self.eps))
        normed: Float32 = (values[0] - self.mean) * factor + self.beta
        return normed


@dataclass(frozen=True)
class Relu(Real):
    """y = max(x, 0), limited to `ceiling` if given (6 for ReLU6)."""

    kind = "relu"

    name: str
    input: str
    ceiling: float | None = None

    @property
    def limits(self) -> tuple[float | None, float | None] | None:
        """As `Operator.limits`."""
        return 0.0, self.ceiling

    @property
    def passed(self) -> tuple[str, ...]:
        """As `Operator.passed`."""
        return self.sources if self.ceiling is None else ()

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        is_fit = self.ceiling is None or (bool(np.isfinite(self.ceiling)) and self.ceiling > 0)
        require(is_fit, f"ceiling is {self.ceiling}, expected a positive number")
        return inputs[0]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        return np.clip(values[0], np.float32(0), None if self.ceiling is None else np.float32(self.ceiling))


@dataclass(frozen=True, eq=False)
class PRelu(Real):
    """y[c] = x[c] from 0 on, slopes[c] * x[c] below; slopes float32 [C]. In integers a Lookup with a table for each."""

    kind = "prelu"

    name: str
    input: str
    slopes: Float32

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        require_array(self.slopes, np.float32, ((inputs[0][2],),), "slopes")
        prove_finite(self.slopes, "slopes")
        return inputs[0]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        sloped: Float32 = np.where(values[0] >= 0, values[0], self.slopes * values[0])
        return sloped


@dataclass(frozen=True)
class Function(Real):
    """y = f(x), element by element; f and its alpha and beta: `functions.evaluate`."""

    kind = "function"

    name: str
    input: str
    function: FunctionName
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def limits(self) -> tuple[float | None, float | None] | None:
        """As `Operator.limits`."""
        return (self.alpha, self.beta) if self.function == "clip" else None

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        require(self.function in FUNCTIONS, f"function is {self.function!r}, expected one of {list(FUNCTIONS)}")
        require(bool(np.isfinite([self.alpha, self.beta]).all()), "alpha and beta must be finite")
        return inputs[0]

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        return evaluate(self.function, values[0], self.alpha, self.beta)
