"""Small proved models with one vector as output."""

from typing import Any

import numpy as np

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Dense, Multiplier, TensorType
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Task
from edgemeta.model.weights import FixedWeights


def vector_model(task: Task, size: int, *, is_raw: bool = False, scale: float = 0.1, zero_point: int = 0) -> Model:
    """A model of one dense layer: int8, or raw accumulators with a scale for each channel."""
    rng = np.random.default_rng(size)
    integers = rng.integers(-128, 128, (size, 48)).astype(np.int8)
    weights = FixedWeights(integers, 8, rng.uniform(0.5, 2, size) * scale if is_raw else np.array([1.0]))
    output = TensorType((1, 1, size), 32) if is_raw else TensorType((1, 1, size), 8, True, zero_point, scale)
    multiplier: Any = Multiplier(np.array([1 << 20], np.int32), np.array([30], np.uint8), -128, 127)
    dense = Dense("vector", "input", output, weights=weights, bias=None, requantize=None if is_raw else multiplier)
    table = (np.arange(256) - 128).astype(np.int8)[np.newaxis]
    model = Model("v", TensorType((4, 4, 3)), (dense,), ("vector",), task, Preprocessing("full", "rgb", table))
    prove(model)
    return model
