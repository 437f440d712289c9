"""Scheme paper: its integers compared with a second implementation, and its errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.model.float_reference import logits
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Add, BatchNorm, Conv, Dense, GlobalAverage, Relu
from edgemeta.model.tasks import Classification
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.paper import quantize_paper
from edgemeta.toolchain.quantize.rescale import rescaled


def residual(rng: np.random.Generator) -> FloatModel:
    """conv0 + ReLU, conv1 + its input, ReLU, mean, dense: a piece of ResNet-8."""

    def norm(name: str, source: str) -> BatchNorm:
        a, b, c = (rng.normal(m, 0.2, 4).astype(np.float32) for m in (1.0, 0.0, 0.0))
        return BatchNorm(name, source, a, b, c, rng.uniform(0.5, 2, 4).astype(np.float32))

    pad = (1, 1, 1, 1)
    layers = (
        Conv("conv0", "input", weights=rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32), padding=pad),
        norm("bn0", "conv0"),
        Relu("relu0", "bn0"),
        Conv("conv1", "relu0", weights=rng.normal(0, 0.3, (4, 3, 3, 4)).astype(np.float32), padding=pad),
        norm("bn1", "conv1"),
        Add("add", ("relu0", "bn1")),
        Relu("relu", "add"),
        GlobalAverage("pool", "relu"),
        Dense(
            "fc",
            "pool",
            weights=rng.normal(0, 0.5, (5, 4)).astype(np.float32),
            bias=rng.normal(0, 1, 5).astype(np.float32),
        ),
    )
    return FloatModel("piece", (8, 8, 3), layers, ("fc",), Classification(tuple("abcde")))


def by_hand(model: FloatModel, image: Any) -> list[int]:
    """The paper's arithmetic on one image int8 [8, 8, 3], in plain Python integers."""
    conv0, bn0, _, conv1, bn1, _, _, _, fc = model.layers

    def weights(layer: Any) -> Any:
        return np.clip(np.floor(layer.weights.astype(np.float64) * 32 + 0.5), -128, 127).astype(int)

    def convolve(x: Any, layer: Any, shift: int, norm: Any, relu: bool) -> Any:
        w = weights(layer)
        padded = np.zeros((10, 10, x.shape[2]), int)
        padded[1:9, 1:9] = x
        out = np.zeros((8, 8, 4), int)
        for i in range(8):
            for j in range(8):
                for o in range(4):
                    acc = int((padded[i : i + 3, j : j + 3] * w[o]).sum())
                    v = max(-128, min(127, (acc + 2 ** (shift - 1)) >> shift))
                    root = np.sqrt(norm.variance[o] + np.float32(norm.eps))
                    y = norm.gamma[o] * (np.float32(v / 8) - norm.mean[o]) / root + norm.beta[o]
                    y = max(y, np.float32(0)) if relu else y
                    out[i, j, o] = max(-128, min(127, int(np.floor(np.float64(y) * 8 + 0.5))))
        return out

    x = convolve(image.astype(int), conv0, 9, bn0, relu=True)
    z = np.clip(x + convolve(x, conv1, 5, bn1, relu=False), 0, 127)
    mean = (z.sum((0, 1)) + 32) >> 6
    bias = np.floor(fc.bias.astype(np.float64) * 256 + 0.5).astype(int)  # type: ignore[union-attr]
    return [int(v) for v in weights(fc) @ mean + bias]


@pytest.mark.parametrize("rescale", [False, True])
def test_equals_the_paper_written_by_hand(rescale: bool) -> None:
    rng = np.random.default_rng(5)
    model = residual(rng)
    integer = quantize_paper(model, rescale)
    model = rescaled(model, 5, 3) if rescale else model
    images = rng.integers(-128, 128, (3, 8, 8, 3)).astype(np.int8)
    found = logits_of(reference.run(integer, images))
    assert [list(map(int, row)) for row in found] == [by_hand(model, image) for image in images]


def test_fraction_bits_and_provenance() -> None:
    integer = quantize_paper(residual(np.random.default_rng(5)))
    assert integer.input.scale == 2**-7
    assert {x.output.scale for x in integer.layers[:-1]} == {2**-3}
    assert integer.output_types[0].scale == 2**-8
    assert integer.provenance["scheme"] == "paper"
    assert all(isinstance(x.requantize, q.ShiftTable) for x in integer.layers if isinstance(x, q.Conv))


def test_every_layer_is_covered(every_layer: FloatModel, pixels: Any) -> None:
    integer = quantize_paper(every_layer)
    encode(integer)  # proves it
    wanted = logits(every_layer, pixels)
    found = logits_of(reference.run(integer, integer.preprocessing.table[0][pixels])) * integer.output_types[0].scale
    assert np.corrcoef(wanted.ravel(), found.ravel())[0, 1] > 0.9


def test_other_preprocessing_is_refused(every_layer: FloatModel) -> None:
    with pytest.raises(QuantizeError, match="scheme paper expects"):
        quantize_paper(replace(every_layer, scale=(255.0,)))


def test_adding_the_image_is_refused() -> None:
    weight = np.eye(3, dtype=np.float32).reshape(3, 1, 1, 3)
    layers = (
        Conv("c", "input", weights=weight),
        Add("a", ("c", "input")),
        GlobalAverage("g", "a"),
    )
    with pytest.raises(QuantizeError, match="layer 'a': adds the image, expected Q3"):
        quantize_paper(FloatModel("m", (4, 4, 3), layers, ("g",), Classification(tuple("abc"))))
