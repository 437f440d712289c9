"""Equalization keeps the float network and evens out channels."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_reference import all_tensors, logits, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Add, BatchNorm, Conv, Dense, GlobalAverage, MaxPool, Relu
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.equalize import can_equalize, equalized


def branched(rng: np.random.Generator) -> FloatModel:
    """Two branches added, ReLU, a grouped convolution, max pool, dense over rows and columns; channels very unlike."""
    sizes = np.logspace(-0.5, 0.5, 4).astype(np.float32)

    def weights(*shape: int) -> Any:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    layers = (
        Conv("a", "input", weights=weights(4, 3, 3, 3), padding=(1, 1, 1, 1)),
        BatchNorm("an", "a", sizes, sizes, np.zeros(4, np.float32), np.ones(4, np.float32)),
        Conv("b", "input", weights=weights(4, 1, 1, 3) * sizes.reshape(4, 1, 1, 1), bias=weights(4)),
        Add("s", ("an", "b")),
        Relu("r", "s"),
        Conv("c", "r", weights=weights(8, 1, 1, 2), bias=weights(8), groups=2),
        Relu("cr", "c"),
        MaxPool("m", "cr", kernel=(4, 4), stride=(4, 4)),
        Dense("d", "m", weights=weights(6, 8 * 8 * 8), bias=weights(6)),
        Relu("dr", "d"),
        Dense("out", "dr", weights=weights(5, 6)),
    )
    return FloatModel("m", (32, 32, 3), layers, ("out",), Classification(tuple("abcde")))


def reach(model: FloatModel, pixels: Any) -> Any:
    """Greatest magnitude of every channel of the tensors of the integer network."""
    tensors = all_tensors(model, network_input(model, pixels))
    return {b.after: np.abs(tensors[b.after]).max((0, 1, 2)).astype(np.float64) for b in blocks_of(model)}


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_the_float_network_is_unchanged(every_layer: FloatModel, pixels: Any, strength: float) -> None:
    for model in (every_layer, branched(np.random.default_rng(2))):
        wanted = logits(model, pixels)
        found = logits(equalized(model, reach(model, pixels), strength), pixels)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_channels_are_equalized(pixels: Any) -> None:
    model = branched(np.random.default_rng(2))

    def unlike(changed: FloatModel, name: str) -> float:
        peak = all_tensors(changed, network_input(changed, pixels))[name].max((0, 1, 2))
        return float(peak.max() / peak[peak > 0].min())

    even = equalized(model, reach(model, pixels), 1.0)
    assert unlike(model, "r") > 8
    assert unlike(even, "r") < 4  # shared with the branches
    assert unlike(even, "cr") < unlike(model, "cr") / 8
    assert unlike(even, "dr") < 1.01


def test_strength_0_changes_nothing(pixels: Any) -> None:
    model = branched(np.random.default_rng(2))
    for before, after in zip(model.layers, equalized(model, reach(model, pixels), 0.0).layers, strict=True):
        if isinstance(before, Conv | Dense):
            assert (before.weights == after.weights).all()  # type: ignore[union-attr]


def test_a_network_of_one_global_average(pixels: Any) -> None:
    weight = np.eye(3, dtype=np.float32).reshape(3, 1, 1, 3)
    layers = (Conv("c", "input", weights=weight), GlobalAverage("g", "c"))
    model = FloatModel("m", (32, 32, 3), layers, ("g",), Classification(tuple("abc")))
    assert (logits(equalized(model, reach(model, pixels), 1.0), pixels) == logits(model, pixels)).all()


def test_functions_keep_their_scale(imported_layers: FloatModel, every_layer: FloatModel) -> None:
    assert can_equalize(every_layer, [b.after for b in blocks_of(every_layer)])
    assert not can_equalize(imported_layers, [b.after for b in blocks_of(imported_layers)])


def test_a_channel_is_enlarged_by_at_most_sixteen() -> None:
    def ones(*shape: int) -> Any:
        return np.ones(shape, np.float32)

    layers = (Conv("a", "input", weights=ones(3, 1, 1, 3)), Relu("r", "a"), Conv("c", "r", weights=ones(4, 1, 1, 3)))
    ends = (GlobalAverage("g", "c"), Dense("out", "g", weights=ones(5, 4)))
    model = FloatModel("m", (8, 8, 3), (*layers, *ends), ("out",), Classification(tuple("abcde")))
    even = equalized(model, {"r": np.array([1.0, 0.125, 0.01])}, 1.0)
    first, second = even.layers[0], even.layers[2]
    assert isinstance(first, Conv)
    assert isinstance(second, Conv)
    assert first.weights[:, 0, 0, 0].tolist() == [1, 8, 16]
    assert second.weights[0, 0, 0].tolist() == [1, 1 / 8, 1 / 16]
