"""Each requirement of the proof, violated once: one clear error; the unchanged model passes."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import MAX_SIDE, AveragePool, Clamp, Conv, Dense, MaxPool, Multiplier, TensorType, Upsample
from edgemeta.model.prove import MAX_LAYERS, MAX_PROVENANCE_DEPTH, prove
from edgemeta.model.reference import run
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import BinaryWeights, FixedWeights


def changed(model: Model, name: str, /, **fields: Any) -> Model:
    """The model with other fields in one layer."""
    layers = tuple(replace(layer, **fields) if layer.name == name else layer for layer in model.layers)
    return replace(model, layers=layers)


def layer(model: Model, name: str) -> Any:
    return model.by_name[name]


def with_output(model: Model, name: str, **fields: Any) -> Model:
    return changed(model, name, output=replace(layer(model, name).output, **fields))


def with_weights(model: Model, name: str, **fields: Any) -> Model:
    return changed(model, name, weights=replace(layer(model, name).weights, **fields))


def with_requantize(model: Model, name: str, **fields: Any) -> Model:
    return changed(model, name, requantize=replace(layer(model, name).requantize, **fields))


def edited(array: np.ndarray, value: int) -> np.ndarray:
    """The array with one entry changed."""
    copy = array.copy()
    copy.flat[0] = value
    return copy


def nested(depth: int) -> dict[str, Any]:
    return {"more": nested(depth - 1)} if depth else {}


def test_the_unchanged_model_passes_and_runs(small_model: Model) -> None:
    prove(small_model)
    batch = np.random.default_rng(0).integers(-128, 128, (5, 4, 4, 3)).astype(np.int8)
    assert len(np.unique(run(small_model, batch)[0], axis=0)) == 5


FAULTS: dict[str, tuple[Callable[[Model], Model], str]] = {
    "empty name": (lambda m: replace(m, name=""), "model's name is ''"),
    "unprintable name": (lambda m: replace(m, name="a\nb"), "printable"),
    "surrogate in a label": (lambda m: replace(m, task=Classification(("a", "\ud800", "c"))), "a label is"),
    "input side 0": (lambda m: replace(m, input=replace(m.input, shape=(0, 4, 3))), "shape is 0"),
    "input of 32 bits": (lambda m: replace(m, input=TensorType((4, 4, 3), bits=32)), "input: bits is 32"),
    "input of 9 bits": (lambda m: replace(m, input=replace(m.input, bits=9)), "bits is 9, expected 1 .. 8 or 32"),
    "zero point outside": (lambda m: replace(m, input=replace(m.input, zero_point=128)), "zero_point is 128"),
    "gray for three channels": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, colour="gray")),
        "3 channels, expected 1 for colour 'gray'",
    ),
    "unknown letter": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, colour="rgx")),
        r"colour is 'rgx', expected 'gray' or 1 to 4 of the letters r, g, b, y \(gray\), a \(alpha\)",
    ),
    "no colour": (lambda m: replace(m, preprocessing=replace(m.preprocessing, colour="")), "colour is ''"),
    "five channels": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, colour="rgbya")),
        "colour is 'rgbya', expected 'gray' or 1 to 4",
    ),
    "four for three channels": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, colour="rgba")),
        "3 channels, expected 4 for colour 'rgba'",
    ),
    "fill without letterbox": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, fill=(114,))),
        r"fill \[114\] and align 'center', expected neither for crop 'center'",
    ),
    "align without letterbox": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, align="corner")),
        r"fill \[0\] and align 'corner', expected neither",
    ),
    "two values of fill": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, crop="letterbox", fill=(0, 1))),
        "fill has 2 values, expected 1 or 3, one for each channel",
    ),
    "fill above a byte": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, crop="letterbox", fill=(0, 1, 256))),
        r"value of the preprocessing's fill is 256, expected 0 \.\. 255",
    ),
    "short table": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, table=np.zeros((1, 255), np.int8))),
        r"preprocessing table is int8 \[1, 255\], expected int8 \[1, 256\] or \[3, 256\]",
    ),
    "table of another type": (
        lambda m: replace(m, preprocessing=replace(m.preprocessing, table=np.zeros((1, 256), np.uint8))),
        "preprocessing table is uint8",
    ),
    "no layers": (lambda m: replace(m, layers=()), "number of layers is 0"),
    "name twice": (lambda m: changed(m, "point", name="conv"), "layer 'conv': the name is already in use"),
    "layer named input": (lambda m: changed(m, "conv", name="input"), "already in use"),
    "unknown input": (
        lambda m: changed(m, "point", input="nothing"),
        "layer 'point': input 'nothing' is not an earlier layer",
    ),
    "cycle": (lambda m: changed(m, "conv", input="point"), "layer 'conv': input 'point' is not an earlier layer"),
    "reads itself": (lambda m: changed(m, "point", input="point"), "input 'point' is not an earlier layer"),
    "wrong shape": (lambda m: with_output(m, "conv", shape=(4, 5, 4)), r"shape \[4, 5, 4\], expected \[4, 4, 4\]"),
    "scale NaN": (lambda m: with_output(m, "conv", scale=float("nan")), "scale is nan"),
    "scale infinite": (lambda m: with_output(m, "conv", scale=float("inf")), "scale is inf"),
    "scale 0": (lambda m: with_output(m, "conv", scale=0.0), "scale is 0.0"),
    "stride 0": (lambda m: changed(m, "conv", stride=(0, 1)), "stride's rows is 0"),
    "padding as wide as the kernel": (lambda m: changed(m, "conv", padding=(3, 1, 1, 1)), "padding's rows is 3"),
    "negative padding": (lambda m: changed(m, "conv", padding=(1, 1, 1, -1)), "padding's columns is -1"),
    "kernel too large": (lambda m: changed(m, "halve", kernel=(9, 2)), "kernel has 9 rows, the padded input 4"),
    "kernel 0": (lambda m: changed(m, "halve", kernel=(0, 2)), "kernel's rows is 0"),
    "groups 0": (lambda m: changed(m, "conv", groups=0), "groups is 0"),
    "groups that do not divide": (lambda m: changed(m, "conv", groups=3), "does not fit 3 input channels"),
    "groups that do not divide the outputs": (
        lambda m: changed(m, "point", weights=FixedWeights(np.ones((3, 1, 1, 2), np.int8), 8, np.ones(1)), groups=2),
        r"shape \[3, 1, 1, 2\] in 2 groups, which does not fit 4 input channels",
    ),
    "flat weights": (
        lambda m: with_weights(m, "conv", values=np.zeros((4, 27), np.int8)),
        r"expected \[O, KH, KW, I\]",
    ),
    "no weights": (lambda m: with_weights(m, "conv", values=np.zeros((0, 3, 3, 3), np.int8)), "at least one element"),
    "weights of int16": (
        lambda m: with_weights(m, "conv", values=np.zeros((4, 3, 3, 3), np.int16)),
        "values is int16",
    ),
    "weight beyond its bits": (
        lambda m: with_weights(m, "conv", values=edited(layer(m, "conv").weights.values, 4)),
        "values holds 4, expected values in -4 .. 3",
    ),
    "weights of 9 bits": (lambda m: with_weights(m, "conv", bits=9), "bits of the weights is 9"),
    "two scales": (lambda m: with_weights(m, "conv", scale=np.ones(2)), r"expected float64 \[1\] or \[4\]"),
    "scale of a weight NaN": (lambda m: with_weights(m, "conv", scale=np.array([np.nan])), "not finite and above 0"),
    "scale of a weight below 0": (lambda m: with_weights(m, "conv", scale=np.array([-1.0])), "not finite and above 0"),
    "negative zero": (
        lambda m: with_weights(m, "point", codes=edited(layer(m, "point").weights.codes, 8)),
        "negative zero",
    ),
    "magnitude too large": (
        lambda m: with_weights(m, "point", codes=edited(layer(m, "point").weights.codes, 5)),
        "magnitudes of the codes holds 5, expected values in 0 .. 4",
    ),
    "code too large": (
        lambda m: with_weights(m, "point", codes=edited(layer(m, "point").weights.codes, 16)),
        "codes holds 16, expected values in 0 .. 15",
    ),
    "basis of 0": (
        lambda m: with_weights(m, "logits", basis=edited(layer(m, "logits").weights.basis, 0)),
        "basis holds other values",
    ),
    "nine bases": (
        lambda m: changed(
            m, "logits", weights=BinaryWeights(np.ones((9, 3, 8), np.int8), np.ones((3, 9), np.int16), np.ones(1))
        ),
        "number of bases is 9",
    ),
    "factors of another shape": (
        lambda m: with_weights(m, "logits", factors=np.ones((2, 3), np.int16)),
        r"factors is int16 \[2, 3\], expected int16 \[3, 2\]",
    ),
    "bias of int64": (lambda m: changed(m, "conv", bias=np.zeros(4, np.int64)), "bias is int64"),
    "bias too short": (lambda m: changed(m, "conv", bias=np.zeros(3, np.int32)), r"expected int32 \[4\]"),
    "dense of another width": (
        lambda m: changed(m, "logits", weights=FixedWeights(np.ones((3, 9), np.int8), 8, np.ones(1))),
        "weights take 9 inputs, found 8",
    ),
    "accumulator above int32": (
        lambda m: changed(m, "logits", bias=np.array([0, 2**31 - 1, 0], np.int32)),
        "accumulator of channel 1 may reach .* beyond int32",
    ),
    "accumulator below int32": (
        lambda m: changed(m, "conv", bias=np.array([0, 0, 0, -(2**31)], np.int32)),
        "accumulator of channel 3 may reach",
    ),
    "requantize without 8 bits": (lambda m: with_output(m, "conv", bits=32), "32 bits, expected 1 .. 8"),
    "shift beyond 31": (
        lambda m: with_requantize(m, "conv", shift=np.full(4, 32, np.uint8)),
        "shift holds 32, expected values in 0 .. 31",
    ),
    "shift beyond 62": (
        lambda m: with_requantize(m, "point", shift=np.array([63], np.uint8)),
        "shift holds 63, expected values in 0 .. 62",
    ),
    "negative multiplier": (
        lambda m: with_requantize(m, "point", multiplier=np.array([-1], np.int32)),
        "multiplier holds -1",
    ),
    "two shifts for four channels": (
        lambda m: with_requantize(m, "point", shift=np.array([1, 2], np.uint8)),
        r"shift is uint8 \[2\], expected uint8 \[1\] or \[4\]",
    ),
    "table entry outside the output": (
        lambda m: with_requantize(m, "conv", table=edited(layer(m, "conv").requantize.table, 64)),
        "table holds 64, expected values in -64 .. 63",
    ),
    "hi outside the output": (lambda m: with_requantize(m, "point", hi=64), "hi is 64, expected -64 .. 63"),
    "lo above hi": (lambda m: with_requantize(m, "point", lo=10, hi=9), "lo is 10, above hi, 9"),
    "raw in the middle": (
        lambda m: changed(with_output(m, "point", bits=32), "point", requantize=None),
        "layer 'point': output is not requantized",
    ),
    "raw of 8 bits": (lambda m: with_output(m, "logits", bits=8), "8 bits, expected 32 without requantization"),
    "raw with two scales": (
        lambda m: with_weights(with_output(m, "logits", scale=9.0), "logits", scale=np.ones(3)),
        "raw accumulators of weights with a scale per channel have scale 9.0, expected the input's",
    ),
    "logits with two scales": (
        lambda m: with_weights(
            with_output(m, "logits", scale=layer(m, "pool").output.scale), "logits", scale=np.ones(3)
        ),
        "the logits have a scale per channel",
    ),
    "raw is read": (
        lambda m: replace(m, layers=(*m.layers, replace(layer(m, "clamp"), name="after", input="logits"))),
        "input 'logits' has raw accumulators",
    ),
    "raw with a zero point": (lambda m: with_output(m, "logits", zero_point=1), "zero point 0"),
    "add of different shapes": (lambda m: changed(m, "add", inputs=("conv", "input")), "inputs have shapes"),
    "add multiplier": (lambda m: changed(m, "add", multipliers=(1, 2**21 + 1)), "multiplier is 2097153"),
    "add shift": (lambda m: changed(m, "add", shift=30), "shift is 30"),
    "add of 32 bits": (lambda m: with_output(m, "add", bits=32), "32 bits, expected 1 .. 8"),
    "clamp to another type": (lambda m: with_output(m, "clamp", zero_point=1), "another type than the input"),
    "pool to another scale": (lambda m: with_output(m, "halve", scale=0.3), "do not share one quantization"),
    "concat of different types": (lambda m: with_output(m, "rescale", zero_point=3), "do not share one quantization"),
    "concat of different sizes": (lambda m: changed(m, "join", inputs=("halve", "rescale")), "inputs have sizes"),
    "concat of nothing": (lambda m: changed(m, "join", inputs=()), "there is no input"),
    "factor 0": (lambda m: changed(m, "double", factor=(0, 2)), "factor is 0"),
    "two outputs": (lambda m: replace(m, outputs=("logits", "pool")), "2 outputs, expected 1"),
    "unknown output": (lambda m: replace(m, outputs=("nothing",)), "not requantized|is not a layer"),
    "two labels for three logits": (
        lambda m: replace(m, task=Classification(("a", "b"))),
        r"output 'logits' has shape \[1, 1, 3\], expected \[1, 1, 2\]",
    ),
    "no labels": (lambda m: replace(m, task=Classification(())), "there are no labels"),
    "temperature NaN": (
        lambda m: replace(m, task=replace(m.task, temperature=math.nan)),
        r"the temperature is nan, expected 0.01 .. 100.0",
    ),
    "temperature too high": (
        lambda m: replace(m, task=replace(m.task, temperature=100.5)),
        r"the temperature is 100.5, expected 0.01 .. 100.0",
    ),
    "NaN in the provenance": (lambda m: replace(m, provenance={"x": float("nan")}), "cannot be written as JSON"),
    "object in the provenance": (lambda m: replace(m, provenance={"x": np.ones(1)}), "cannot be written as JSON"),
    "surrogate in the provenance": (lambda m: replace(m, provenance={"x": "\ud800"}), "cannot be written as JSON"),
    "deep provenance": (lambda m: replace(m, provenance=nested(MAX_PROVENANCE_DEPTH + 1)), "nested more than"),
}


def test_labels_may_repeat(small_model: Model) -> None:
    prove(replace(small_model, task=Classification(("crane", "b", "crane"))))  # as in ImageNet's list


@pytest.mark.parametrize("fault", FAULTS)
def test_each_error_has_its_text(small_model: Model, fault: str) -> None:
    break_it, sentence = FAULTS[fault]
    with pytest.raises(ModelError, match=sentence) as caught:
        prove(break_it(small_model))
    assert "\n" not in str(caught.value)


def tower(*layers: Any, shape: tuple[int, int, int] = (1, 1, 1)) -> Model:
    """A gray-image model of given layers that ends in `end`."""
    table = np.zeros((1, 256), np.int8)
    output = layers[-1].output.shape[2]
    labels = Classification(tuple(map(str, range(output))))
    return Model("tower", TensorType(shape), layers, (layers[-1].name,), labels, Preprocessing("full", "gray", table))


def test_accumulator_bounds_are_sharp() -> None:
    """1 * 127 * 127 + bias reaches 2**31 - 1 exactly: allowed; one more is not. Below, -128 * 127 likewise."""
    logits = TensorType((1, 1, 1), bits=32)
    weights = FixedWeights(np.array([[127]], np.int8), 8, np.ones(1))
    for bias, fits in (
        (2**31 - 1 - 127 * 127, True),
        (2**31 - 127 * 127, False),
        (-(2**31) + 128 * 127, True),
        (-(2**31) + 128 * 127 - 1, False),
    ):
        model = tower(Dense("end", "input", logits, weights=weights, bias=np.array([bias], np.int32)))
        if fits:
            prove(model)
            extremes = run(model, np.array([-128, 127], np.int8).reshape(2, 1, 1, 1))[0].ravel().tolist()
            assert extremes == [bias - 128 * 127, bias + 127 * 127]
        else:
            with pytest.raises(ModelError, match="beyond int32"):
                prove(model)


@given(st.data(), st.integers(1, 8), st.booleans(), st.integers(0, 2**32 - 1))
def test_worst_case_input_reaches_the_bound(data: st.DataObject, bits: int, signed: bool, seed: int) -> None:
    """x chosen by the weights' signs drives the sum to both bounds: with that bias it just fits, one more does not."""
    rng = np.random.default_rng(seed)
    plain = TensorType((2, 3, 1), bits, signed)
    kind = replace(plain, zero_point=data.draw(st.integers(plain.lo, plain.hi)))
    values = rng.integers(-128, 128, (1, 6)).astype(np.int8)
    logits = TensorType((1, 1, 1), bits=32)
    for positive, negative, limit in ((kind.hi, kind.lo, 2**31 - 1), (kind.lo, kind.hi, -(2**31))):
        worst = np.where(values > 0, positive, negative).astype(kind.dtype)
        bias = limit - sum(int(w) * (int(x) - kind.zero_point) for w, x in zip(values[0], worst[0], strict=True))
        for beyond in (0, 1 if limit > 0 else -1):
            if not -(2**31) <= bias + beyond < 2**31:
                continue
            bias_array = np.array([bias + beyond], np.int32)
            dense = Dense("end", "input", logits, weights=FixedWeights(values, 8, np.ones(1)), bias=bias_array)
            model = replace(tower(dense, shape=kind.shape), input=kind)
            model = replace(model, preprocessing=Preprocessing("full", "gray", np.full((1, 256), kind.lo, kind.dtype)))
            if beyond:
                with pytest.raises(ModelError, match="beyond int32"):
                    prove(model)
            else:
                prove(model)
                assert run(model, worst.reshape(1, 2, 3, 1))[0].item() == limit


def test_memory_and_time_are_bounded() -> None:
    huge = TensorType((2**14, 2**14, 1))
    end = TensorType((1, 1, 1))
    with pytest.raises(ModelError, match="elements together"):
        prove(
            tower(
                Upsample("up", "input", huge, factor=(2**14, 2**14)),
                MaxPool("end", "up", end, kernel=(2**14, 2**14), stride=(1, 1)),
            )
        )
    wide = MaxPool(
        "end", "input", TensorType((1, 1, 1)), kernel=(60_000, 60_000), stride=(1, 1), padding=(59_999, 59_999, 0, 0)
    )
    with pytest.raises(ModelError, match="elements together"):
        prove(tower(wide))
    side = 2**10
    kernel = (side // 2 + 1, side // 2 + 1)
    half = TensorType((side // 2, side // 2, 1))
    slow = MaxPool("slow", "input", half, kernel=kernel, stride=(1, 1))
    last = MaxPool("end", "slow", end, kernel=(side // 2, side // 2), stride=(1, 1))
    with pytest.raises(ModelError, match="multiplications"):
        prove(tower(slow, replace(slow, name="twin"), last, shape=(side, side, 1)))


def test_convolutions_are_bounded() -> None:
    """Eight 129x129 convolutions over a 1024x1024 map: 8 * 2**20 * 129**2 is just above 2**37."""
    kind = TensorType((1024, 1024, 1))
    weights = FixedWeights(np.ones((1, 129, 129, 1), np.int8), 8, np.ones(1))
    requantize = Multiplier(np.array([1], np.int32), np.array([14], np.uint8), -128, 127)
    names = ["input", *(f"conv{i}" for i in range(8))]
    layers = [
        Conv(name, before, kind, weights=weights, padding=(64, 64, 64, 64), requantize=requantize)
        for before, name in pairwise(names)
    ]
    end = MaxPool("end", names[-1], TensorType((1, 1, 1)), kernel=(1024, 1024), stride=(1, 1))
    with pytest.raises(ModelError, match="multiplications, expected at most"):
        prove(tower(*layers, end, shape=kind.shape))
    prove(tower(*layers[:4], replace(end, input=names[4]), shape=kind.shape))


def test_counts_are_bounded() -> None:
    kind = TensorType((1, 1, 1))
    clamps = [Clamp(f"{i}", f"{i - 1}" if i else "input", kind, 0, 1) for i in range(MAX_LAYERS + 1)]
    prove(tower(*clamps[:MAX_LAYERS]))
    with pytest.raises(ModelError, match="number of layers is 4097"):
        prove(tower(*clamps))
    dense = Dense("end", "input", kind, weights=FixedWeights(np.ones((MAX_SIDE + 1, 1), np.int8), 8, np.ones(1)))
    many = replace(dense, output=TensorType((1, 1, MAX_SIDE + 1), bits=32))
    with pytest.raises(ModelError, match="a side of the output's shape is 65537"):
        prove(tower(many))


def test_pool_sums_are_bounded() -> None:
    side = 4200
    requantize = Multiplier(np.array([1], np.int32), np.array([30], np.uint8), -128, 127)
    pool = AveragePool("end", "input", TensorType((1, 1, 1)), kernel=(side, side), stride=(1, 1), requantize=requantize)
    with pytest.raises(ModelError, match="sum of 17640000 elements may reach 2257920000"):
        prove(tower(pool, shape=(side, side, 1)))
