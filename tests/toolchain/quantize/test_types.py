"""Which tensors share a type, and types whose scales are powers of two."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Concat, Conv, Function, GlobalAverage, MaxPool, Slice, TensorType
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.ranges import Histogram, RangeRule, Statistics
from edgemeta.toolchain.quantize.types import power_type, tensor_types


def types_of(model: FloatModel, images: Any, rule: RangeRule = "minmax") -> tuple[dict[str, TensorType], Statistics]:
    blocks = blocks_of(model)
    statistics = Statistics(model, blocks, images(model))
    return tensor_types(image_type(model), prove_float(model, "m"), blocks, statistics, rule), statistics


def quantization(kind: TensorType) -> tuple[bool, int, float]:
    return kind.signed, kind.zero_point, kind.scale


def test_types_depend_on_the_range_of_a_tensor(every_layer: FloatModel, images: Any) -> None:
    types, statistics = types_of(every_layer, images)
    assert quantization(types["c0"]) == (False, 0, statistics.histograms["r0"].greatest / 255)
    assert quantization(types["m2"]) == quantization(types["a1"])  # a max pool
    assert quantization(types["u2"]) == quantization(types["c2"]) == quantization(types["j3"])  # only the concat reads
    histogram = statistics.histograms["c1"]
    kind = types["c1"]
    assert (kind.lo - kind.zero_point) * kind.scale <= histogram.least + kind.scale
    assert (kind.hi - kind.zero_point) * kind.scale >= histogram.greatest - kind.scale


def test_a_concatenation_of_parts_of_the_image_keeps_its_type(imported_layers: FloatModel, images: Any) -> None:
    types, _ = types_of(imported_layers, images)
    assert quantization(types["focus"]) == quantization(types["s1"]) == quantization(types["input"])


def test_the_image_beside_other_tensors_is_requantized(images: Any) -> None:
    weight = np.full((4, 1, 1, 3), 2.0, np.float32)
    layers = (
        Conv("c", "input", weights=weight),
        Concat("j", ("c", "input")),
        Conv("out", "j", weights=np.ones((1, 1, 1, 7), np.float32)),
        GlobalAverage("g", "out"),
    )
    types, _ = types_of(FloatModel("m", (32, 32, 3), layers, ("g",), Embedding()), images)
    assert types["input"].scale == 1 / 128
    assert quantization(types["j"]) != quantization(types["input"])


def test_a_narrow_tensor_that_others_read_keeps_its_own_type(images: Any) -> None:
    weight = np.zeros((4, 1, 1, 3), np.float32)
    weight[:, 0, 0, 0] = 1
    layers = (
        Conv("wide", "input", weights=9 * weight),
        Conv("narrow", "input", weights=weight),
        Concat("j", ("wide", "narrow")),
        Conv("other", "narrow", weights=np.ones((1, 1, 1, 4), np.float32)),
        MaxPool("pooled", "j", kernel=(2, 2), stride=(2, 2)),
        Conv("out", "pooled", weights=np.ones((1, 1, 1, 8), np.float32)),
        GlobalAverage("g1", "out"),
        GlobalAverage("g2", "other"),
        Concat("last", ("g1", "g2")),
    )
    types, _ = types_of(FloatModel("m", (32, 32, 3), layers, ("last",), Embedding()), images)
    assert quantization(types["wide"]) == quantization(types["j"]) == quantization(types["pooled"])
    assert types["narrow"].scale < types["j"].scale / 4


def test_least_error_narrows_what_a_function_does_not_need(imported_layers: FloatModel, images: Any) -> None:
    (plain, _), (least, _) = types_of(imported_layers, images), types_of(imported_layers, images, "mse")
    assert least["c0"].scale < plain["c0"].scale
    assert isinstance(imported_layers.layers[5], Function)
    assert isinstance(imported_layers.layers[0], Slice)


def filled(values: Any) -> Histogram:
    histogram = Histogram()
    histogram.add(values.astype(np.float32), float(min(values.min(), 0)), float(max(values.max(), 0)))
    return histogram


def error(values: Any, scale: float, lo: int, hi: int) -> float:
    return float(np.square(np.clip(np.floor(values / scale + 0.5), lo, hi) * scale - values).mean())


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("spread", [0.01, 1.0, 37.0])
@pytest.mark.parametrize("shape", ["normal", "relu", "heavy", "wide"])
def test_the_scale_of_least_error_is_found(spread: float, shape: str, signed: bool) -> None:
    rng = np.random.default_rng(3)
    drawn = {
        "normal": rng.normal(0, spread, 20_000),
        "relu": np.maximum(rng.normal(0, spread, 20_000), 0),
        "heavy": np.append(rng.normal(0, spread, 20_000), 60 * spread),
        "wide": rng.uniform(-spread, 3 * spread, 20_000),
    }[shape]
    found = power_type(filled(drawn), (1, 1, 1), signed=signed)
    assert (found.bits, found.signed, found.zero_point) == (8, signed or shape != "relu", 0)
    assert np.log2(found.scale) % 1 == 0
    best = min(error(drawn, 2.0**exponent, found.lo, found.hi) for exponent in range(-20, 12))
    assert error(drawn, found.scale, found.lo, found.hi) == pytest.approx(best, rel=0.05)


def test_all_values_fit_at_the_ends() -> None:
    assert power_type(filled(np.array([-128.0, 127.0])), (1, 1, 1)) == TensorType((1, 1, 1), scale=1)
    assert power_type(filled(np.array([0.0, 255.0])), (1, 1, 1)) == TensorType((1, 1, 1), signed=False, scale=1)
    assert power_type(filled(np.zeros(9)), (1, 1, 1)).scale == 1
