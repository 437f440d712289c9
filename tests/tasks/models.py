"""Small proved models with one vector as output."""

from typing import Any

import numpy as np

from edgemeta.model.graph import Crop, Model, Preprocessing
from edgemeta.model.layers import Conv, Dense, Multiplier, TensorType
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Task, labels_of
from edgemeta.model.weights import FixedWeights


def colour_map_model(task: Task, side: int = 8, *, is_raw: bool = True, crop: Crop = "full") -> Model:
    """Red, green and blue (of them, as many as labels) of side x side pixels: 16 times the pixel in int32, or int8."""
    count = len(labels_of(task))
    weights = FixedWeights((16 * np.eye(3)[:count, np.newaxis, np.newaxis]).astype(np.int8), 8, np.array([1.0]))
    output = (
        TensorType((side, side, count), 32, scale=1 / 255) if is_raw else TensorType((side, side, count), scale=0.5)
    )
    shift: Any = None if is_raw else Multiplier(np.array([1 << 20], np.int32), np.array([25], np.uint8), -128, 127)
    conv = Conv("map", "input", output, weights=weights, bias=np.full(count, -16 * 128, np.int32), requantize=shift)
    pixels = TensorType((side, side, 3), signed=False, scale=1 / 255)
    table = np.arange(256, dtype=np.uint8)[np.newaxis]
    model = Model("colours", pixels, (conv,), ("map",), task, Preprocessing(crop, "rgb", table))
    prove(model)
    return model


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
