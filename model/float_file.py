"""The float model file: one safetensors file, tensors plus a JSON header, data only.

The header is the metadata entry "edgemeta": a JSON object with format "edgemeta-float", version 1, name, input_shape,
mean and scale (each a number, or a list of one for each channel), labels (of a classification) or task (any other, as
in a model file), output (or outputs, if several), colour (if not rgb), crop, fill and align (if not "center", [0] and
"center"), provenance and layers; each layer has op, name, inputs and its other attributes, and its arrays are the
tensors "<layer>.<field>" (float32). A pool is one op with the kind "max" or "average", weights are called weight, and a
resize has its size.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from edgemeta.model.atomic_write import atomic_file
from edgemeta.model.container import as_imported
from edgemeta.model.document import hints_of, read_value, task_from_document, task_to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Align, Crop, FloatModel
from edgemeta.model.layers import FloatLayer, Operator, Pair, Shape, real
from edgemeta.model.prove_float import prove_float
from edgemeta.model.require import require, shown
from edgemeta.model.spec import FLOAT
from edgemeta.model.tasks import Classification, Task

FORMAT, VERSION = "edgemeta-float", 1
#: Largest file that is read, bytes, and most layers and labels.
MAX_BYTES, MAX_LAYERS, MAX_LABELS = 1 << 31, 10_000, 100_000

_RECORDS = {record.kind: record for record in FLOAT}
_ARRAYS = {"weights": "weight"} | {
    name: name
    for name in ("bias", "gamma", "beta", "mean", "variance", "slopes", "values", "rows", "columns", "channels")
}
"""Fields that are tensors where they hold an array, with their names in files."""
_USUAL: dict[str, Any] = {"colour": "rgb", "crop": "center", "align": "center", "fill": (0,)}
"""Preprocessing that is written only where it differs."""
_INTEGER_ONLY = ("output", "requantize", "multipliers", "shift", "lo", "hi", "exponentials", "multiplier")
"""Fields that float networks do not use."""


def save_float_model(model: FloatModel, path: Path) -> None:
    """Write a float model; the same model gives the same bytes. Raises ModelError if it is inconsistent."""
    prove_float(model, str(path))
    tensors: dict[str, NDArray[Any]] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": model.name,
        "input_shape": model.input_shape,
        "mean": _shortened(model.mean),
        "scale": _shortened(model.scale),
        **({"labels": model.labels} if _is_plain(model.task) else {"task": task_to_document(model.task)}),
        **({"output": model.output} if len(model.outputs) == 1 else {"outputs": model.outputs}),
        **{key: getattr(model, key) for key, usual in _USUAL.items() if getattr(model, key) != usual},
        "provenance": model.provenance,
        "layers": [_entry(layer, tensors) for layer in model.layers],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        _write(file, tensors, json.dumps(header, sort_keys=True))


def _write(file: BinaryIO, tensors: Mapping[str, NDArray[Any]], document: str) -> None:
    """The bytes that safetensors makes of float32 tensors, without holding them twice."""
    entries: dict[str, object] = {"__metadata__": {"edgemeta": document}}
    place = 0
    for name in sorted(tensors):
        after = place + tensors[name].nbytes
        entries[name] = {"dtype": "F32", "shape": tensors[name].shape, "data_offsets": (place, after)}
        place = after
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in sorted(tensors):
        file.write(tensors[name].reshape(-1).view(np.uint8).data)


def _entry(layer: FloatLayer, tensors: dict[str, NDArray[Any]]) -> dict[str, object]:
    """The JSON object of a layer; its arrays are added to `tensors`."""
    entry: dict[str, object] = {"op": layer.kind}
    for each in fields(layer):
        value = getattr(layer, each.name)
        if isinstance(value, np.ndarray):
            tensors[f"{layer.name}.{_ARRAYS[each.name]}"] = np.ascontiguousarray(value)
        elif value is not None and each.name not in _INTEGER_ONLY:
            entry[each.name] = value
    kind, _, pool = layer.kind.partition("_")
    if pool == "pool":
        return entry | {"op": "pool", "kind": kind}
    return entry | ({"size": layer.output.shape[:2]} if layer.kind == "resize_bilinear" else {})


def _shortened(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    """One number for all channels is written as a number."""
    return numbers[0] if len(numbers) == 1 else numbers


def _is_plain(task: Task) -> bool:
    """Whether the task is a classification that its labels describe."""
    return isinstance(task, Classification) and task.temperature == 1


def is_float_model(path: Path) -> bool:
    """Whether the header of a file declares a float model (the file may still be damaged)."""
    try:
        with safe_open(path, framework="np") as file:
            header = json.loads((file.metadata() or {}).get("edgemeta", "{}"))
    except (OSError, SafetensorError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def next_step(path: Path) -> str:
    """The command that makes an integer model of a float model file."""
    return f"edgemeta quantize {path} --calibrate IMAGES --out MODEL"


def load_float_model(path: Path) -> FloatModel:
    """Read and check a float model. Raises ModelError."""
    header, tensors = _read(path)
    try:
        model = _model(header, tensors)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    prove_float(model, str(path))
    return model


def _model(header: dict[str, Any], tensors: dict[str, NDArray[np.float32]]) -> FloatModel:
    require(header.get("format") == FORMAT, f"format is {header.get('format')!r}, expected {FORMAT!r}")
    version = header.get("version")
    require(version == VERSION, f"version is {version!r}, expected {VERSION}: made by a newer program or damaged")
    entries = read_value(tuple[Mapping[str, Any], ...], header.get("layers"), "layers")
    require(len(entries) <= MAX_LAYERS, f"has {len(entries)} layers, expected at most {MAX_LAYERS}")
    unused = set(tensors)
    layers = tuple(_layer(i, entry, tensors, unused) for i, entry in enumerate(entries))
    require(not unused, f"tensor {min(unused, default='')!r} belongs to no layer, expected only used tensors")
    usual = _USUAL | {"fill": [0]} | header
    return FloatModel(
        name=read_value(str, header.get("name"), "name"),
        input_shape=read_value(Shape, header.get("input_shape"), "input_shape"),
        layers=layers,
        outputs=read_value(tuple[str, ...], header.get("outputs", [header.get("output")]), "outputs"),
        task=_task(header),
        mean=_numbers("mean", header.get("mean")),
        scale=_numbers("scale", header.get("scale")),
        provenance=read_value(Mapping[str, Any], header.get("provenance"), "provenance"),
        colour=read_value(str, usual["colour"], "colour"),
        crop=read_value(Crop, usual["crop"], "crop"),
        align=read_value(Align, usual["align"], "align"),
        fill=read_value(tuple[int, ...], usual["fill"], "fill"),
    )


def _task(header: dict[str, Any]) -> Task:
    if "task" in header:
        return task_from_document(header["task"])
    labels = read_value(tuple[str, ...], header.get("labels"), "labels")
    require(len(labels) <= MAX_LABELS, f"has {len(labels)} labels, expected at most {MAX_LABELS}")
    return Classification(labels)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ModelError(f"{path}: has {size} bytes, expected at most {MAX_BYTES}")
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path}: not a complete safetensors file ({reason}){as_imported(path)}") from error
    if metadata.get("format") == "edgemeta":
        raise ModelError(f"{path}: is an integer model, expected a float model")
    text = metadata.get("edgemeta")
    if text is None:
        raise ModelError(f"{path}: has no edgemeta header, expected a float model of this program")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: the header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path}: the header is a {type(header).__name__}, expected an object")
    return header, tensors


def _layer(i: int, entry: Mapping[str, Any], tensors: dict[str, NDArray[np.float32]], unused: set[str]) -> FloatLayer:
    given = dict(entry)
    op, name = given.pop("op", None), given.get("name")
    if op == "pool":
        op = f"{given.pop('kind', None)}_pool"
    record = _RECORDS.get(op) if isinstance(op, str) else None
    if record is None or not isinstance(name, str):
        ops = dict.fromkeys("pool" if kind.endswith("_pool") else kind for kind in _RECORDS)
        raise ModelError(f"layer {i} is {shown(entry, 80)}, expected a name and one op of {', '.join(ops)}")
    place = f"layer {name!r}: "
    values: dict[str, Any] = {}
    if op == "resize_bilinear":
        values["output"] = real(*read_value(Pair, given.pop("size", None), f"{place}size"))
    for each, hint in _fields(record):
        key = f"{name}.{_ARRAYS.get(each.name)}"
        if each.name in _ARRAYS and key in tensors:
            values[each.name] = tensors[key]
            unused.discard(key)
        elif each.name in given:
            values[each.name] = read_value(hint, given.pop(each.name), place + each.name)
        elif each.default is MISSING:
            what = f"tensor {key!r}" if each.name in _ARRAYS else f"{place}{each.name}"
            raise ModelError(f"{what} is missing, expected it for op {op}")
    for key in given:
        raise ModelError(f"layer {name!r} has an unknown entry {key!r}, expected those of op {op}")
    return cast("FloatLayer", record(**values))


def _fields(record: type[Operator]) -> list[tuple[Any, Any]]:
    """The fields that a float network uses, with their type hints."""
    hints = hints_of(record)
    return [(each, hints[each.name]) for each in fields(record) if each.name not in _INTEGER_ONLY]  # type: ignore[arg-type]


def _numbers(place: str, value: object) -> tuple[float, ...]:
    if isinstance(value, list) and 1 <= len(value) <= 4:
        numbers: tuple[float, ...] = read_value(tuple[float, ...], value, place)
        return numbers
    return (read_value(float, value, place),)
