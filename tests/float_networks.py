"""Float networks with every kind of layer, and images for them: fixtures of the tests of models and of the workshop."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    AveragePool,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    Float32,
    Function,
    GlobalAverage,
    MaxPool,
    Pad,
    PRelu,
    Product,
    Relu,
    ResizeBilinear,
    Slice,
    Upsample,
    real,
)
from edgemeta.model.tasks import Classification


@pytest.fixture
def pixels() -> NDArray[np.uint8]:
    """Twenty smooth 32x32 images, uint8 [20, 32, 32, 3]."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (20, 4, 4, 3)).astype(np.float64)
    fine = coarse.repeat(8, 1).repeat(8, 2) + rng.normal(0, 8, (20, 32, 32, 3))
    return np.clip(fine, 0, 255).astype(np.uint8)


def norm(name: str, source: str, channels: int, rng: np.random.Generator) -> BatchNorm:
    """A batch norm with believable numbers."""
    draw = [rng.uniform(0.5, 1.5, channels), rng.normal(0, 0.2, channels), rng.normal(0, 0.2, channels)]
    gamma, beta, mean = (d.astype(np.float32) for d in draw)
    return BatchNorm(name, source, gamma, beta, mean, rng.uniform(0.5, 2.0, channels).astype(np.float32))


def conv(
    name: str, source: str, shape: tuple[int, int, int, int], rng: np.random.Generator, **rest: Any
) -> Conv[Float32]:
    """A convolution [O, KH, KW, I / groups] whose output varies about as much as its input."""
    spread = np.sqrt(2.0 / (shape[1] * shape[2] * shape[3]))
    return Conv(name, source, weights=rng.normal(0, spread, shape).astype(np.float32), **rest)


@pytest.fixture
def every_layer() -> FloatModel:
    """A network with every kind of layer, with and without layers that can be fused."""
    rng = np.random.default_rng(11)
    pad = (1, 1, 1, 1)
    bias = rng.normal(0, 0.1, 8).astype(np.float32)
    layers = (
        conv("c0", "input", (8, 3, 3, 3), rng, padding=pad, stride=(2, 2)),
        norm("n0", "c0", 8, rng),
        Relu("r0", "n0", 6.0),
        conv("c1", "r0", (8, 3, 3, 1), rng, bias=bias, padding=pad, groups=8),
        Add("a1", ("r0", "c1")),
        Relu("r1", "a1"),
        MaxPool("m2", "r1", kernel=(2, 2), stride=(2, 2)),
        conv("c2", "m2", (8, 1, 1, 8), rng),
        norm("n2", "c2", 8, rng),
        Upsample("u2", "n2", factor=(2, 2)),
        Concat("j3", ("r1", "u2")),
        Relu("r3", "j3"),
        AveragePool("p3", "r3", kernel=(3, 3), stride=(2, 2), padding=pad),
        norm("n4", "p3", 16, rng),
        GlobalAverage("g5", "n4"),
        Dense("d6", "g5", weights=rng.normal(0, 0.3, (12, 16)).astype(np.float32)),
        Relu("r6", "d6"),
        Dense("out", "r6", weights=rng.normal(0, 0.3, (10, 12)).astype(np.float32), bias=np.zeros(10, np.float32)),
    )
    return FloatModel("every-layer", (32, 32, 3), layers, ("out",), Classification(tuple("abcdefghij")))


@pytest.fixture
def imported_layers() -> FloatModel:
    """A network with the layers that other people's networks bring."""
    rng = np.random.default_rng(12)
    pad = (1, 1, 1, 1)
    layers = (
        Slice("s0", "input", start=(0, 0, 0), stop=(32, 32, 3), step=(2, 2, 1)),
        Slice("s1", "input", start=(1, 1, 0), stop=(32, 32, 3), step=(2, 2, 1)),
        Concat("focus", ("s0", "s1")),
        conv("c0", "focus", (8, 3, 3, 6), rng, padding=pad),
        norm("n0", "c0", 8, rng),
        Function("f0", "n0", "silu"),
        conv("c1", "f0", (8, 3, 3, 8), rng, padding=(2, 2, 2, 2), dilation=(2, 2)),
        Function("f1", "c1", "hard_swish"),
        GlobalAverage("g", "f1"),
        conv("c2", "g", (8, 1, 1, 8), rng),
        Function("gate", "c2", "sigmoid"),
        Product("p", ("f1", "gate")),
        ChannelShuffle("shuffled", "p", groups=2),
        Concat("joined", ("shuffled", "f0")),
        Pad("spread", "joined", padding=(1, 1, 2, 2), spacing=(2, 2)),
        conv("transposed", "spread", (8, 3, 3, 16), rng, padding=(0, 0, 0, 0)),
        Function("f2", "transposed", "leaky_relu", 0.1),
        PRelu("sloped", "f2", rng.normal(0, 0.3, 8).astype(np.float32)),
        ResizeBilinear("small", "sloped", real(7, 9), coordinates="half_pixel"),
        GlobalAverage("g2", "small"),
        Dense("out", "g2", weights=rng.normal(0, 0.3, (10, 8)).astype(np.float32), bias=np.zeros(10, np.float32)),
    )
    return FloatModel("imported", (32, 32, 3), layers, ("out",), Classification(tuple("abcdefghij")), colour="bgr")
