"""A small model that has a record of nearly every kind, for the tests of files and proofs."""

import numpy as np
import pytest

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Concat,
    Conv,
    Dense,
    MaxPool,
    Multiplier,
    Rescale,
    ShiftTable,
    TensorType,
    Upsample,
)
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights
from tests.float_networks import every_layer, imported_layers, pixels

__all__ = ["every_layer", "imported_layers", "pixels"]


@pytest.fixture(scope="session")
def small_model() -> Model:
    rng = np.random.default_rng(5)
    image = TensorType((4, 4, 3), zero_point=-3, scale=0.5)
    maps = TensorType((4, 4, 4), bits=7, scale=0.25)
    halved, joined = TensorType((2, 2, 4), bits=7, scale=0.25), TensorType((4, 4, 8), bits=7, scale=0.25)
    pooled, logits = TensorType((1, 1, 8), signed=False, scale=0.1), TensorType((1, 1, 3), bits=32, scale=0.01)
    fixed = FixedWeights(rng.integers(-4, 4, (4, 3, 3, 3)).astype(np.int8), 3, np.array([0.5, 1, 2, 4]))
    codes = PowerOfTwoWeights(rng.choice([0, 1, 2, 4, 9, 12], (4, 1, 1, 4)).astype(np.uint8), 4, np.array([0.125]))
    bases = rng.choice([-1, 1], (2, 3, 8)).astype(np.int8)
    binary = BinaryWeights(bases, rng.integers(-50, 50, (3, 2)).astype(np.int16), np.array([0.1]))
    shift, table = np.array([2, 3, 4, 2], np.uint8), rng.integers(-64, 64, (4, 256)).astype(np.int8)
    by_channel = ShiftTable(shift, table)
    by_layer = Multiplier(np.array([1 << 29], np.int32), np.array([32], np.uint8), -60, 63)
    average = Multiplier(np.array([1 << 26], np.int32), np.array([30], np.uint8), 0, 255)
    layers = (
        Conv(
            "conv",
            "input",
            maps,
            weights=fixed,
            bias=np.array([1, -2, 3, -4], np.int32),
            stride=(1, 1),
            padding=(1, 1, 1, 1),
            groups=1,
            requantize=by_channel,
        ),
        Conv("point", "conv", maps, weights=codes, bias=None, requantize=by_layer),
        Add("add", ("conv", "point"), maps, multipliers=(3, 5), shift=3, lo=0, hi=63),
        Clamp("clamp", "add", maps, 0, 48),
        MaxPool("halve", "clamp", halved, kernel=(2, 2), stride=(2, 2)),
        Upsample("double", "halve", maps, factor=(2, 2)),
        Rescale("rescale", "point", maps, by_layer),
        Concat("join", ("double", "rescale"), joined),
        AveragePool("pool", "join", pooled, kernel=(4, 4), stride=(1, 1), requantize=average),
        Dense("logits", "pool", logits, weights=binary, bias=np.array([5, -6, 7], np.int32)),
    )
    preprocessing = Preprocessing("center", "rgb", (np.arange(256) - 128).astype(np.int8)[np.newaxis])
    labels = Classification(("cat", "dog", "frog"))
    return Model("small", image, layers, ("logits",), labels, preprocessing, {"accuracy": 0.5, "data": ["a", None]})
