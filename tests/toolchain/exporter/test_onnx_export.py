"""QDQ ONNX of our models: ONNX Runtime gives our integers, or the ones beside them, and the import gives them back."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Conv, Dense, Lookup, Multiplier, ShiftTable
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find
from edgemeta.toolchain.errors import ExportError
from edgemeta.toolchain.exporter.onnx_export import export_onnx
from edgemeta.toolchain.importer.integer_network import integer_network
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.tflite_network import import_tflite
from tests.toolchain.importer.test_tflite_operators import INT8
from tests.toolchain.importer.tflite_cases import written_int8

RNG = np.random.default_rng(12)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(12).bit_generator.state


WRITTEN = sorted(set(INT8) - {"attention"})
"""Networks whose layers the export writes: tokens it refuses."""
OTHERWISE = {"MUL, swish", "LOGISTIC in another scale", "PRELU per channel"}
"""Networks that come back as other layers of the same integers."""
TABLE = np.arange(256, dtype=np.uint8).reshape(1, 256)
FUNCTIONS = {"HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "TANH"}


def model_of(path: Path) -> Model:
    """The integer network of a TFLite file."""
    network, imported = import_tflite(path)
    made = integer_network(network, imported, imported.tensors, path)
    return Model(
        "net", made.input, made.layers, made.outputs, Classification(("a",)), Preprocessing("full", "rgb", TABLE)
    )


def images(model: Model, count: int = 4) -> Any:
    kind = model.input
    return RNG.integers(kind.lo, kind.hi + 1, (count, *kind.shape)).astype(kind.dtype)


def by_onnx_runtime(path: Path, model: Model, batch: Any) -> list[Any]:
    """Integers [N, H, W, C] of each output."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    results = []
    for image in batch:
        real = (image.astype(np.float32) - model.input.zero_point) * np.float32(model.input.scale)
        found = session.run(None, {"input": real.transpose(2, 0, 1)[np.newaxis]})
        integers = []
        for name, kind, each in zip(model.outputs, model.output_types, found, strict=True):
            chw = (kind.shape[2], *kind.shape[:2])
            real_map = each.reshape(chw).transpose(1, 2, 0)
            integers.append(np.rint(real_map / model.steps(name)) + kind.zero_point)
        results.append(integers)
    return [np.stack(each) for each in zip(*results, strict=True)]


@pytest.mark.parametrize("name", WRITTEN)
def test_onnx_runtime_gives_our_integers_within_one_step(name: str, tmp_path: Path) -> None:
    model = model_of(written_int8(INT8[name], tmp_path))
    export_onnx(model, tmp_path / "out.onnx")
    batch = images(model)
    for ours, theirs in zip(
        reference.run(model, batch), by_onnx_runtime(tmp_path / "out.onnx", model, batch), strict=True
    ):
        difference = np.abs(ours - theirs)
        assert difference.max() <= 1 + (name == "RESIZE_BILINEAR")
        assert (difference > 0).mean() < 0.15  # averages of six lie between two integers often


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in OTHERWISE])
def test_a_round_trip_gives_the_same_layers(name: str, tmp_path: Path) -> None:
    model = model_of(written_int8(INT8[name], tmp_path))
    export_onnx(model, tmp_path / "out.onnx")
    network, imported = import_onnx(tmp_path / "out.onnx")
    again = integer_network(network, imported, imported.tensors, tmp_path)
    assert again.input == model.input
    layers = [layer.equivalent for layer in model.layers]
    assert [type(layer) for layer in again.layers] == [type(layer) for layer in layers]
    for ours, theirs in zip(layers, again.layers, strict=True):
        assert ours.output == theirs.output
        for field in fields(ours):
            _expect_equal(getattr(ours, field.name), getattr(theirs, field.name))
    batch = images(model)
    back = replace(model, input=again.input, layers=again.layers, outputs=again.outputs)
    for before, after in zip(reference.run(model, batch), reference.run(back, batch), strict=True):
        assert (before == after).all()


def _expect_equal(a: object, b: object) -> None:
    if isinstance(a, np.ndarray):
        assert np.array_equal(a, b)
    elif isinstance(a, Multiplier):
        assert isinstance(b, Multiplier)
        factors = [each.multiplier / 2.0 ** each.shift.astype(float) for each in (a, b)]
        assert np.allclose(*factors, rtol=1e-6)
        assert (a.lo, a.hi) == (b.lo, b.hi)
    elif hasattr(a, "scale") and not hasattr(a, "shape"):
        assert a == b


def test_the_shipped_model_has_the_same_labels_in_onnx_runtime(tmp_path: Path) -> None:
    model, path = load(find("resnet8-cifar10")), tmp_path / "resnet8.onnx"
    export_onnx(model, path)
    batch = images(model, 40)
    ours, theirs = reference.run(model, batch), by_onnx_runtime(path, model, batch)
    assert len(ours) == len(theirs) == 4, "the logits, and the evidence of the rule of rejection"
    assert (ours[0].argmax(3) == theirs[0].argmax(3)).mean() >= 0.95
    properties = {each.key: each.value for each in onnx.load(str(path)).metadata_props}
    assert properties["labels"].split("\n") == list(model.labels)


def test_any_table_is_exported(tmp_path: Path) -> None:
    """As a Gather, where it is no function that ONNX has a name for."""
    model = model_of(written_int8(INT8["TANH"], tmp_path))
    layer = model.layers[-1]
    assert isinstance(layer, Lookup)
    channels = layer.output.shape[2]
    table = RNG.integers(-128, 128, (channels, 256)).astype(np.int8)
    model = replace(model, layers=(*model.layers[:-1], replace(layer, table=table)))
    export_onnx(model, tmp_path / "out.onnx")
    batch = images(model)
    integers = reference.trace(model, batch)[model.layers[-2].name]
    (theirs,) = by_onnx_runtime(tmp_path / "out.onnx", model, batch)
    rows = np.arange(channels)
    assert (theirs == table[rows, integers.astype(int) + 128]).mean() > 0.99


def test_layers_that_onnx_cannot_express_are_named(tmp_path: Path) -> None:
    model = model_of(written_int8(INT8["CONV_2D"], tmp_path))
    first, second = model.layers
    assert isinstance(first, Conv)
    table = ShiftTable(np.zeros(1, np.uint8), np.zeros((1, 256), np.int8))
    model = replace(model, layers=(replace(first, requantize=table), second))
    with pytest.raises(ExportError, match=rf"net: cannot be exported: layer {first.name!r} requantizes by a table"):
        export_onnx(model, tmp_path / "out.onnx")


def test_a_factor_that_is_not_that_of_the_scales_is_named(tmp_path: Path) -> None:
    model = model_of(written_int8(INT8["FULLY_CONNECTED"], tmp_path))
    *others, last = model.layers
    assert isinstance(last, Dense)
    last = replace(last, output=replace(last.output, scale=last.output.scale * 2))
    with pytest.raises(ExportError, match="requantizes by other factors than its scales"):
        export_onnx(replace(model, layers=(*others, last)), tmp_path / "out.onnx")
