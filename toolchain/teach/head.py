"""The last layer: what the regression found, as int8 weights with one step for all labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Dense, TensorType
from edgemeta.model.weights import FixedWeights
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.quantize.scales import int32_bias
from edgemeta.toolchain.teach.features import PREFIX, UNIT
from edgemeta.toolchain.teach.ridge import Coefficients
from edgemeta.toolchain.teach.scales import weights_of_cells
from edgemeta.toolchain.teach.table import Table

_TOP = 127


@dataclass(frozen=True, eq=False)
class Linear:
    """logits = features @ weights + bias, for integer features [D]; weights [D, labels], bias [labels]."""

    weights: Float64
    bias: Float64


@dataclass(frozen=True, eq=False)
class Head:
    """The same in integers: int8 [labels, D] and int32 [labels]; a step of a logit is worth `step`."""

    weights: NDArray[np.int8]
    bias: NDArray[np.int32]
    step: float

    def logits(self, features: NDArray[np.int8]) -> NDArray[np.int32]:
        """Integer logits [N, labels] of features [N, D]; exact, as float64 products of such integers are."""
        sums = features.astype(np.float64) @ self.weights.T.astype(np.float64) + self.bias
        return sums.astype(np.int32)

    def layer(self, source: str) -> Dense:
        """The layer that computes them from the tensor of the features."""
        weights = FixedWeights(self.weights, 8, np.array([self.step / UNIT]))
        return Dense(f"{PREFIX}.logits", source, self.kind, weights=weights, bias=self.bias)

    @property
    def kind(self) -> TensorType:
        """Type of the logits."""
        return TensorType((1, 1, len(self.weights)), 32, scale=self.step)


def linear(coefficients: Coefficients, table: Table, training: Float64) -> Linear:
    """The function of integer features; training: the rows [N, D] that the coefficients belong to."""
    weights, offset = weights_of_cells(table.scales, training.T @ coefficients.pictures, table.side)
    return Linear(weights, coefficients.bias - offset)


def step_for(function: Linear) -> float:
    """The least step with which all weights fit int8."""
    return max(float(np.abs(function.weights).max()) / _TOP, 1e-12)


def quantized(function: Linear, step: float) -> Head:
    """The nearest integers; a weight beyond int8 takes the greatest."""
    weights = np.clip(np.floor(function.weights.T / step + 0.5), -_TOP, _TOP).astype(np.int8)
    return Head(weights, int32_bias(function.bias / step, f"{PREFIX}.logits"), step)
