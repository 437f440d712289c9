"""Single layers with weights of planes, for tests of the popcount kernel."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import BinaryWeights
from tests.kernels.cuda.one_step import Layout, network, random_weights

U1, U2 = TensorType((1, 1, 1), bits=1, signed=False), TensorType((1, 1, 1), bits=2, signed=False, zero_point=1)
S1, S3 = TensorType((1, 1, 1), bits=1, zero_point=-1), TensorType((1, 1, 1), bits=3, zero_point=-2)
S8, U8 = TensorType((1, 1, 1), zero_point=-3), TensorType((1, 1, 1), signed=False, zero_point=7)
NONE = (0, 0, 0, 0)

LAYOUTS = (
    Layout("2 bits, 16 channels", (7, 9, 16), 17, U2, U8),
    Layout("3 bits signed, 20 channels, stride 2", (9, 8, 20), 12, S3, U8, stride=(2, 2)),
    Layout("1 bit, 64 channels, residual", (6, 6, 64), 64, U1, U1, adds=True),
    Layout("1 bit signed, 1x1", (5, 7, 96), 40, S1, U8, "table", NONE, (1, 1)),
    Layout("8 bits signed, 7 channels", (6, 5, 7), 9, S8, U8, "product", (2, 1, 2, 0), (5, 2)),
    Layout("8 bits, one pixel, clamped", (1, 1, 130), 10, U8, U8, padding=NONE, kernel=(1, 1), clamps=True),
    Layout("2 bits, many channels", (4, 4, 520), 9, U2, U8),
)
WAYS = ("two bits", "signs", "bases")


def model_of(layout: Layout, way: str) -> Model:
    """The layer with weights of two bits, of -1 and 1, or of three bases, some filters of the extremes."""
    rng = np.random.default_rng(5)
    shape = (layout.outputs, *layout.kernel, layout.shape[2])
    if way == "bases":
        basis = (2 * rng.integers(0, 2, (3, *shape)) - 1).astype(np.int8)
        basis[:, 0], basis[:, 1] = 1, -1
        factors = rng.integers(-300, 301, (layout.outputs, 3)).astype(np.int16)
        return with_weights(layout, BinaryWeights(basis, factors, np.ones(1)))
    weights = rng.integers(-2, 2, shape) if way == "two bits" else 2 * rng.integers(0, 2, shape) - 1
    weights[0], weights[1] = weights.min(), weights.max()
    return network(layout, weights.astype(np.int8))


def with_weights(layout: Layout, weights: BinaryWeights) -> Model:
    """The layer with weights of bases."""
    model = network(layout, np.ones(weights.shape, np.int8))
    conv, *after = model.layers
    return replace(model, layers=(replace(conv, weights=weights), *after))


def models() -> Iterator[tuple[str, Model]]:
    """Every layout with every way, by a name."""
    for layout in LAYOUTS:
        for way in WAYS:
            yield f"{layout.name}, {way}", model_of(layout, way)


def wide(layout: Layout) -> Model:
    """Weights of 8 bits, which have no planes."""
    return network(layout, random_weights(layout))
