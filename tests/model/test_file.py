"""The model file: its content, its deterministic bytes, and one error text for every invalid file."""

import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as safetensors_of

from edgemeta.model.document import to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.file import MAX_FILE_BYTES, decode, encode, load, save
from edgemeta.model.graph import Model, Preprocessing

Document = dict[str, Any]


def assert_equal(a: Any, b: Any) -> None:
    """Records equal field by field, arrays with their dtypes; the digest aside."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif is_dataclass(a):
        for field in fields(a):
            if field.name != "digest":
                assert_equal(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    else:
        assert a == b


def split(data: bytes) -> tuple[Document, bytes]:
    """Header and tensor bytes."""
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join(header: Document | str, body: bytes) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + body


def without_checksum(data: bytes) -> bytes:
    """The file as an edgemeta wrote it before there was a checksum."""
    header, body = split(data)
    del header["__metadata__"]["checksum"]
    return join(header, body)


def with_model(data: bytes, change: Callable[[Document], Any]) -> bytes:
    """The file with another model document; `change` edits it in place or returns the new text."""
    header, body = split(without_checksum(data))
    document = json.loads(header["__metadata__"]["model"])
    text = change(document)
    header["__metadata__"]["model"] = text if isinstance(text, str) else json.dumps(document)
    return join(header, body)


def test_a_model_round_trips(small_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    digest = save(small_model, path)
    restored = load(path)
    assert_equal(restored, small_model)
    assert restored.digest == digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert encode(restored) == path.read_bytes()
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_temperature_is_stored_unless_it_is_1(small_model: Model) -> None:
    """A file from before there was a temperature has none, and is read as 1."""
    warm = replace(small_model, task=replace(small_model.task, temperature=1.25))
    assert decode(encode(warm)).task.temperature == 1.25
    assert b"temperature" not in encode(small_model)
    assert decode(encode(small_model)).task.temperature == 1.0


def test_bytes_do_not_depend_on_the_process(small_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    save(small_model, path)
    program = "import sys; from edgemeta.model.file import load, save; save(load(sys.argv[1]), sys.argv[2])"
    for seed in ("1", "2"):
        again = tmp_path / f"again{seed}"
        subprocess.run(
            [sys.executable, "-c", program, path, again],
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert again.read_bytes() == path.read_bytes()


def test_bytes_do_not_depend_on_the_order_of_keys(small_model: Model) -> None:
    one, other = replace(small_model, provenance={"a": 1, "b": 2}), replace(small_model, provenance={"b": 2, "a": 1})
    assert encode(one) == encode(other)


def test_only_a_letterbox_is_written_with_its_fill(small_model: Model) -> None:
    """So that files of older versions keep their bytes."""
    written, _ = to_document(small_model)
    boxed = Preprocessing("letterbox", "bgr", small_model.preprocessing.table, (1, 2, 3), "corner")
    assert written["preprocessing"].keys() == {"crop", "colour", "table"}
    letterbox = replace(small_model, preprocessing=boxed)
    document, _ = to_document(letterbox)
    assert document["preprocessing"] == {
        "crop": "letterbox", "colour": "bgr", "table": "input.table", "fill": [1, 2, 3], "align": "corner"
    }  # fmt: skip
    restored = decode(encode(letterbox)).preprocessing
    assert (restored.crop, restored.fill, restored.align) == ("letterbox", (1, 2, 3), "corner")


def test_saving_replaces_a_file_atomically(small_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(small_model, path)
    with path.open("rb") as reader:
        save(replace(small_model, name="another"), path)
        assert decode(reader.read()).name == "small"
    assert load(path).name == "another"
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_safetensors_library_reads_it(small_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    save(small_model, path)
    with safe_open(path, "np") as file:
        assert file.metadata().keys() == {"checksum", "format", "version", "model"}
        assert file.metadata()["format"] == "edgemeta"
        np.testing.assert_array_equal(file.get_tensor("conv.bias"), [1, -2, 3, -4])
        assert file.get_tensor("conv.weights").shape == (-(-108 * 3 // 8),)
        assert file.get_tensor("point.weights").shape == (8,)
        assert file.get_tensor("logits.weights").shape == (6,)
    header, body = split(path.read_bytes())
    assert (path.stat().st_size - len(body)) % 8 == 0
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % {"F64": 8, "I32": 4, "I16": 2}.get(entry["dtype"], 1) == 0


def test_an_unprovable_model_is_not_written(small_model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="model's name"):
        save(replace(small_model, name=""), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_to_an_invalid_path_is_an_error(small_model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere/model: cannot be written \(No such file or directory\)"):
        save(small_model, tmp_path / "nowhere" / "model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match=r"folder: cannot be written"):
        save(small_model, tmp_path / "folder")
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def drop(key: str) -> Callable[[Document], Any]:
    return lambda document: document.pop(key) and None


def put(*path: str | int, value: Any) -> Callable[[Document], Any]:
    """Set one value of the document by its path."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def text_with(old: str, new: str) -> Callable[[Document], Any]:
    return lambda document: json.dumps(document).replace(old, new, 1)


DOCUMENT_FAULTS: dict[str, tuple[Callable[[Document], Any], str]] = {
    "not JSON": (lambda document: "{", "the model's description is not JSON"),
    "a list": (lambda document: "[]", "model is \\[\\], expected an object"),
    "no text": (lambda document: "", "description is not JSON"),
    "missing key": (drop("task"), "model has no key 'task'"),
    "unknown key": (put("colour", value=1), "model has the unknown key 'colour'"),
    "unknown key in a layer": (
        put("layers", 0, "extent", value=1),
        r"model.layers\[0\] has the unknown key 'extent'",
    ),
    "missing key in a type": (lambda d: d["input"].pop("bits") and None, "model.input has no key 'bits'"),
    "unknown kind": (
        put("layers", 2, "kind", value="lstm"),
        r"model.layers\[2\].kind is 'lstm', expected one of 'conv'",
    ),
    "no kind": (
        lambda d: d["layers"][2].pop("kind") and None,
        r"model.layers\[2\] is .* expected an object with a key \"kind\"",
    ),
    "layers no list": (put("layers", value={}), "model.layers is {}, expected a list"),
    "a layer no object": (put("layers", 0, value=7), r"model.layers\[0\] is 7, expected an object"),
    "bits true": (put("input", "bits", value=True), "model.input.bits is True, expected an integer"),
    "bits 8.0": (put("input", "bits", value=8.0), "model.input.bits is 8.0, expected an integer"),
    "signed 1": (put("input", "signed", value=1), "model.input.signed is 1, expected true or false"),
    "scale text": (put("input", "scale", value="1"), "model.input.scale is '1', expected a number"),
    "name a number": (put("name", value=1), "model.name is 1, expected text"),
    "a pair of three": (
        put("layers", 0, "stride", value=[1, 1, 1]),
        r"layers\[0\].stride is \[1, 1, 1\], expected a list of 2",
    ),
    "stride text": (put("layers", 0, "stride", value=[1, "1"]), r"layers\[0\].stride\[1\] is '1', expected an integer"),
    "unknown align": (put("preprocessing", "align", value="left"), "model.preprocessing.align is 'left', expected one"),
    "fill of text": (
        put("preprocessing", "fill", value=["0"]),
        r"model.preprocessing.fill\[0\] is '0', expected an int",
    ),
    "colour no text": (put("preprocessing", "colour", value=3), "model.preprocessing.colour is 3, expected text"),
    "unknown crop": (put("preprocessing", "crop", value="left"), "model.preprocessing.crop is 'left', expected one of"),
    "provenance a list": (put("provenance", value=[]), r"model.provenance is \[\], expected an object"),
    "temperature text": (
        put("task", "temperature", value="1"),
        "model.task.temperature is '1', expected a number",
    ),
    "temperature 0": (put("task", "temperature", value=0), "the temperature is 0.0, expected 0.01 .. 100.0"),
    "NaN": (text_with("0.5", "NaN"), "holds NaN, expected finite numbers only"),
    "infinity": (text_with("0.5", "-Infinity"), "holds -Infinity"),
    "1e999": (text_with("0.5", "1e999"), "holds the number 1e999, expected a finite number"),
    "endless integer": (text_with("0.5", "9" * 5000), "holds the number 9{40}, expected"),
    "long integer": (text_with("0.5", "1" * 41), "holds the number 1{40}, expected"),
    "key twice": (text_with('"name"', '"name": "other", "name"'), "has the key 'name' more than once"),
    "deep nesting": (lambda document: "[" * 100_000, "nested too deeply"),
    "deep provenance": (put("provenance", value=json.loads('{"a":' * 20 + "1" + "}" * 20)), "nested more than 16 deep"),
    "tensor of another layer": (
        put("layers", 0, "bias", value="point.bias"),
        "is 'point.bias', expected the tensor name 'conv.bias'",
    ),
    "tensor that is missing": (put("layers", 1, "bias", value="point.bias"), "tensor 'point.bias' is missing"),
    "tensor that nobody names": (put("layers", 0, "bias", value=None), "tensor 'conv.bias' belongs to no layer"),
    "renamed layer": (put("layers", 0, "name", value="other"), "expected the tensor name 'other."),
    "weights side 0": (put("layers", 0, "weights", "shape", value=[0, 3, 3, 3]), "expected sides of 1 .."),
    "weights side negative": (put("layers", 0, "weights", "shape", value=[-4, -3, 3, 3]), "expected sides of 1 .."),
    "too many weights": (put("layers", 0, "weights", "shape", value=[65536, 65536]), "more than 134217728 weights"),
    "more weights than bytes": (put("layers", 0, "weights", "shape", value=[4, 3, 3, 4]), "take 54 bytes, found 41"),
    "weights of 9 bits": (put("layers", 0, "weights", "bits", value=9), "9 bits, expected 1 .. 8"),
    "bases 0": (put("layers", 9, "weights", "bases", value=0), "take 0 bytes, found 6"),
    "bases negative": (put("layers", 9, "weights", "bases", value=-1), "bytes, found 6"),
    "cycle": (put("layers", 0, "input", value="join"), "layer 'conv': input 'join' is not an earlier layer"),
    "huge shape": (put("input", "shape", value=[2**62, 2**62, 3]), "a side of the input's shape is"),
    "surrogate": (put("layers", 5, "name", value="\ud800"), "the name of layer 5 is .* printable"),
}


@pytest.mark.parametrize("fault", DOCUMENT_FAULTS)
def test_errors_in_the_document(small_model: Model, tmp_path: Path, fault: str) -> None:
    change, sentence = DOCUMENT_FAULTS[fault]
    assert_refused(tmp_path, with_model(encode(small_model), change), sentence)


def assert_refused(folder: Path, data: bytes, sentence: str) -> None:
    path = folder / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=sentence) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < 500


def with_version(data: bytes, version: str) -> bytes:
    header, body = split(data)
    header["__metadata__"]["version"] = version
    return join(header, body)


def without_metadata(data: bytes) -> bytes:
    header, body = split(data)
    del header["__metadata__"]
    return join(header, body)


def with_tensor(data: bytes, name: str, change: Callable[[Document], Any]) -> bytes:
    header, body = split(data)
    change(header[name])
    return join(header, body)


FILE_FAULTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "not a complete safetensors file"),
    "text": (lambda data: b"hello, I am a text file of some length", "not a complete safetensors file"),
    "one byte short": (lambda data: data[:-1], "not a complete safetensors file"),
    "one byte more": (lambda data: data + b"\0", "not a complete safetensors file"),
    "header only": (lambda data: data[:8], "not a complete safetensors file"),
    "huge header": (
        lambda data: struct.pack("<Q", 2**63) + data[8:],
        r"is not a complete safetensors file \(its header would have more than 16777216 bytes\)$",
    ),
    "header longer than the file": (
        lambda data: struct.pack("<Q", len(data)) + data[8:],
        "not a complete safetensors file",
    ),
    "header twice the key": (lambda data: join('{"a":1,"a":2}', b""), "safetensors|more than once"),
    "metadata twice": (
        lambda data: join('{"__metadata__":{"format":"x","format":"edgemeta"}}', b""),
        "the header has the key 'format' more than once",
    ),
    "no metadata": (without_metadata, "a safetensors file that contains no edgemeta model"),
    "float weights of another program": (
        lambda data: safetensors_of({"w": np.ones(3, np.float32)}),
        "contains no edgemeta",
    ),
    "newer": (lambda data: with_version(data, "2"), "format version '2' and needs a newer edgemeta"),
    "much newer": (lambda data: with_version(data, "9" * 99), "needs a newer edgemeta"),
    "version 0": (lambda data: with_version(data, "0"), "format version '0', expected 1"),
    "version of words": (lambda data: with_version(data, "one"), "format version 'one', expected 1"),
    "another dtype": (
        lambda data: with_tensor(data, "conv.bias", lambda entry: entry.update(dtype="U32")),
        "tensor 'conv.bias' is U32, expected one of U8, I8, I16, I32, F32, F64",
    ),
    "another shape": (
        lambda data: with_tensor(data, "conv.bias", lambda entry: entry.update(shape=[2, 2])),
        r"layer 'conv': bias is int32 \[2, 2\], expected int32 \[4\]",
    ),
    "offsets that overlap": (
        lambda data: with_tensor(data, "conv.bias", lambda entry: entry.update(data_offsets=[0, 16])),
        "not a complete safetensors file",
    ),
    "counts beyond memory": (
        lambda data: with_tensor(data, "conv.bias", lambda entry: entry.update(shape=[2**40, 2**40])),
        "not a complete safetensors file",
    ),
}


@pytest.mark.parametrize(
    "content",
    [
        b"password: hunter2\n",
        join('{"a": "hunter2"}', b""),
        join('{"hunter2": 1}', b""),
        join('["hunter2"]', b""),
        join('{"a": {"dtype": "hunter2", "shape": [1], "data_offsets": [0, 4]}}', b"1234"),
        join('{"a": {"dtype": "U8", "shape": ["hunter2"], "data_offsets": [0, 4]}}', b"1234"),
        join('{"hunter2": {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}}', b"12345"),
    ],
)
def test_content_of_other_files_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    """It may be any file, and the error is sent to the requester."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is not a complete safetensors file") as error:
        load(path)
    reported = str(error.value).removeprefix(str(path))
    assert "hunter" not in reported
    assert str(int.from_bytes(content[:8], "little")) not in reported


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_errors_in_the_file(small_model: Model, tmp_path: Path, fault: str) -> None:
    change, sentence = FILE_FAULTS[fault]
    assert_refused(tmp_path, change(encode(small_model)), sentence)


def test_paths_without_a_file(tmp_path: Path) -> None:
    for path, sentence in (
        (tmp_path, "is a folder, expected a regular file"),
        (tmp_path / "nothing", r"nothing: cannot be read: No such file or directory"),
        (Path("/dev/null"), "is a device, expected a regular file"),
        (tmp_path / "a\0b", "cannot be read: a NUL character in its name"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ):
        with pytest.raises(ModelError, match=sentence):
            load(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ModelError, match="has more than 268,435,456 bytes"):
        load(path)
    with pytest.raises(ModelError, match="larger than 256 MiB"):
        decode(bytes(MAX_FILE_BYTES + 1))
