"""The float model file: round trip, and every fault in one sentence."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save, save_file

from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, load
from edgemeta.model.float_file import is_float_model, load_float_model, save_float_model
from edgemeta.model.float_reference import all_tensors, logits, network_input
from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.tasks import Classification, Detection, DetectionLevel, Embedding, MultiLabel
from edgemeta.model.zoo import find


@pytest.fixture
def path(tmp_path: Path, every_layer: FloatModel) -> Path:
    """A saved model."""
    path = tmp_path / "net.safetensors"
    save_float_model(every_layer, path)
    return path


def test_round_trip(path: Path, every_layer: FloatModel, pixels: Any) -> None:
    loaded = load_float_model(path)
    assert is_float_model(path)
    assert (logits(loaded, pixels) == logits(every_layer, pixels)).all()
    assert [type(x) for x in loaded.layers] == [type(x) for x in every_layer.layers]
    assert loaded.labels == every_layer.labels
    again = path.with_name("again.safetensors")
    save_float_model(loaded, again)
    assert again.read_bytes() == path.read_bytes()


def test_an_integer_model_is_expected_elsewhere(path: Path) -> None:
    with pytest.raises(ModelError, match="is a float model: make an integer model of it with `edgemeta quantize`"):
        decode(path.read_bytes())


def test_preprocessing_and_task_are_kept(tmp_path: Path, imported_layers: FloatModel) -> None:
    path = tmp_path / "others.safetensors"
    for task in (Classification(tuple("abcdefghij"), 1.5), MultiLabel(tuple("abcdefghij"), 0.7), Embedding()):
        changed = replace(imported_layers, task=task, crop="letterbox", fill=(114, 0, 255), align="corner")
        save_float_model(changed, path)
        loaded = load_float_model(path)
        assert (loaded.task, loaded.crop, loaded.fill, loaded.align) == (task, "letterbox", (114, 0, 255), "corner")


def test_round_trip_of_imported_layers(tmp_path: Path, imported_layers: FloatModel, pixels: Any) -> None:
    path = tmp_path / "imported.safetensors"
    level = DetectionLevel("f1", "shuffled", anchors=((3.0, 4.0), (5.0, 6.5)))
    task = Detection(tuple("abcd"), "ssd", (level,), score_threshold=0.3)
    save_float_model(replace(imported_layers, outputs=("f1", "shuffled"), task=task), path)
    loaded = load_float_model(path)
    assert (loaded.outputs, loaded.task, loaded.colour) == (("f1", "shuffled"), task, "bgr")
    assert [type(x) for x in loaded.layers] == [type(x) for x in imported_layers.layers]
    expected, found = (all_tensors(each, network_input(each, pixels)) for each in (imported_layers, loaded))
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor)


def rewritten(path: Path, change: Any) -> Path:
    """The file with its header changed by a function."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    container = json.loads(raw[8 : 8 + size])
    header = json.loads(container["__metadata__"]["edgemeta"])
    given_back = change(header)
    header = given_back if isinstance(given_back, list) else header
    container["__metadata__"]["edgemeta"] = json.dumps(header)
    text = json.dumps(container).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])
    return path


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda h: h.update(format="other"), "format is 'other', expected 'edgemeta-float'"),
        (lambda h: h.update(version=2), "version is 2, expected 1"),
        (lambda h: h.update(layers={}), r"layers is \{\}, expected a list"),
        (lambda h: h["layers"][0].update(op="rm"), "layer 0 is .*expected a name and one op"),
        (lambda h: h["layers"][0].update(extra=1), "unknown entry 'extra'"),
        (lambda h: h["layers"][0].update(stride=[1]), "stride is .1., expected a list of 2"),
        (
            lambda h: h["layers"][0].update(stride=[1, 1 << 40]),
            "columns is 1099511627776, expected 1 .. 65536",
        ),
        (lambda h: h["layers"][0].update(name="x"), "tensor 'x.weight' is missing"),
        (lambda h: h["layers"][2].pop("input"), "input is missing"),
        (lambda h: h["layers"][2].update(ceiling="6"), "ceiling is '6', expected a number"),
        (lambda h: h["layers"][4].update(inputs="r0"), "inputs is 'r0', expected a list of 2"),
        (
            lambda h: h["layers"][6].update(kind="sum"),
            "layer 6 is .*'kind': 'sum'.* one op of conv.*, pool",
        ),
        (lambda h: h["layers"].pop() and None, "belongs to no layer"),
        (lambda h: h.update(labels=[1]), "labels.0. is 1, expected text"),
        (lambda h: h.update(task={"kind": "guess"}), "task.kind is 'guess', expected one of"),
        (lambda h: h.update(task={"kind": "embedding", "size": 3}), "task has the unknown key 'size'"),
        (lambda h: h.update(crop="round"), "crop is 'round', expected one of 'center', 'full', 'letterbox'"),
        (lambda h: h.update(align="corner"), "expected neither for crop 'center'"),
        (lambda h: h.update(crop="letterbox", fill=[1, 2]), "the preprocessing's fill has 2 values, expected 1 or 3"),
        (lambda h: h.update(crop="letterbox", fill="grey"), "fill is 'grey', expected a list"),
        (lambda h: h.update(name=3), "name is 3, expected text"),
        (lambda h: h.update(mean=None), "mean is None, expected a number"),
        (lambda h: h.update(mean=[1, 2]), r"\(1.0, 2.0\)\) / \(128.0,\), expected 1 or 3 finite numbers each"),
        (lambda h: h.update(scale=[1, 0, 1]), "and scales above 0"),
        (lambda h: h.update(mean=[1, "2", 3]), "mean.1. is '2', expected a number"),
        (lambda h: h.update(colour="rgx"), "colour is 'rgx', expected 'gray' or 1 to 4 of the letters"),
        (lambda h: h.update(colour="rgba"), "the input has 3 channels, expected 4 for colour 'rgba'"),
        (lambda h: h.update(scale=10**400), "scale is 1"),
        (lambda h: h.update(output="c0"), "output 'c0' has shape"),
        (lambda h: [1], "the header is a list, expected an object"),
    ],
)
def test_wrong_headers(path: Path, change: Any, text: str) -> None:
    with pytest.raises(ModelError, match=text) as error:
        load_float_model(rewritten(path, change))
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    with pytest.raises(ModelError, match="not a complete safetensors file"):
        load_float_model(text)
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        load_float_model(tmp_path / "none")
    plain = tmp_path / "net.ONNX"
    plain.write_text("hello")
    for read in (load_float_model, load):
        with pytest.raises(
            ModelError, match=r"not a complete safetensors file \(.*\); `edgemeta import` reads such files$"
        ):
            read(plain)
    with pytest.raises(ModelError, match=r"resnet8-cifar10.safetensors: is an integer model, expected a float model$"):
        load_float_model(find("resnet8-cifar10"))
    plain = tmp_path / "plain.safetensors"
    save_file({"a": np.zeros(2, np.float32)}, plain)
    with pytest.raises(ModelError, match="has no edgemeta header"):
        load_float_model(plain)
    save_file({"a": np.zeros(2, np.float32)}, plain, metadata={"edgemeta": "{"})
    with pytest.raises(ModelError, match="the header is not JSON"):
        load_float_model(plain)
    assert not any(is_float_model(p) for p in (text, plain, tmp_path / "none"))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_damaged_files_raise_only_that_error(path: Path, data: st.DataObject) -> None:
    raw = bytearray(path.read_bytes())
    damaged = path.with_name("damaged")
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            raw[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    damaged.write_bytes(raw)
    with suppress(ModelError):  # and no other error
        load_float_model(damaged)


def test_the_bytes_are_those_of_safetensors(tmp_path: Path) -> None:
    """The file is written tensor by tensor; safetensors would need it whole in memory, twice."""
    labels = ("Grünspecht", 'a "quoted" \\ one', "日")
    layer = Conv("b ä", INPUT, weights=np.ones((3, 1, 1, 3), np.float32), bias=np.arange(3, dtype=np.float32))
    dense = Dense("a", "b ä", weights=np.ones((3, 12), np.float32))
    model = FloatModel("n", (2, 2, 3), (layer, dense), ("a",), Classification(labels), (0.0,), (1.0,), {"from": "ü\n"})
    save_float_model(model, tmp_path / "net.safetensors")
    with safe_open(tmp_path / "net.safetensors", framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        wanted = save(tensors, metadata=file.metadata())
    assert (tmp_path / "net.safetensors").read_bytes() == wanted
    assert load_float_model(tmp_path / "net.safetensors").labels == labels
