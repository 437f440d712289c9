"""The float model file: one safetensors file, tensors plus a JSON header, data only.

The header is the metadata entry "edgemeta": a JSON object with format "edgemeta-float", version 1, name, input_shape,
mean and scale (each a number, or a list of one for each channel), labels (of a classification) or task (any other, as
in a model file), output (or outputs, if several), colour (if not rgb), crop, fill and align (if not "center", [0] and
"center"), provenance and layers; each layer has op, name, inputs and its other attributes, and its arrays are the
tensors "<layer>.<field>" (float32).
"""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from edgemeta.model.document import task_from_document, task_to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.tasks import Classification, Task
from edgemeta.toolchain.errors import FloatModelError
from edgemeta.toolchain.float_model.graph import (
    Add,
    Align,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Crop,
    Dense,
    FloatLayer,
    FloatModel,
    Function,
    GlobalAverage,
    Pad,
    Pool,
    Product,
    Relu,
    ResizeBilinear,
    Slice,
    Upsample,
)
from edgemeta.toolchain.float_model.shapes import check

FORMAT, VERSION = "edgemeta-float", 1
#: Largest file that is read, bytes, and most layers and labels.
MAX_BYTES, MAX_LAYERS, MAX_LABELS = 1 << 31, 10_000, 100_000

_OPS: dict[str, type[FloatLayer]] = {
    "conv": Conv,
    "batch_norm": BatchNorm,
    "relu": Relu,
    "add": Add,
    "pool": Pool,
    "global_average": GlobalAverage,
    "dense": Dense,
    "concat": Concat,
    "upsample": Upsample,
    "function": Function,
    "product": Product,
    "pad": Pad,
    "slice": Slice,
    "channel_shuffle": ChannelShuffle,
    "resize_bilinear": ResizeBilinear,
}
_NAMES = {kind: op for op, kind in _OPS.items()}
_ARRAYS: dict[type[FloatLayer], tuple[str, ...]] = {
    **dict.fromkeys((Conv, Dense), ("weight", "bias")),
    BatchNorm: ("gamma", "beta", "mean", "variance"),
}
_USUAL: dict[str, Any] = {"colour": "rgb", "crop": "center", "align": "center", "fill": (0,)}
"""Preprocessing that is written only where it differs."""
_CHOICES: dict[str, tuple[str, ...]] = {"crop": get_args(Crop), "align": get_args(Align)}
_LENGTHS = {
    **dict.fromkeys(("stride", "kernel", "factor", "dilation", "spacing", "size"), 2),
    **dict.fromkeys(("start", "stop", "step"), 3),
    "padding": 4,
}


def save_float_model(model: FloatModel, path: Path) -> None:
    """Write a float model; the same model gives the same bytes. Raises FloatModelError if it is inconsistent."""
    check(model, str(path))
    tensors: dict[str, NDArray[Any]] = {}
    layers = []
    for layer in model.layers:
        entry: dict[str, object] = {"op": _NAMES[type(layer)]}
        for f in fields(layer):
            value = getattr(layer, f.name)
            if isinstance(value, np.ndarray):
                tensors[f"{layer.name}.{f.name}"] = np.ascontiguousarray(value)
            elif value is not None:
                entry[f.name] = value
        layers.append(entry)
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
        "layers": layers,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(save(tensors, metadata={"edgemeta": json.dumps(header, sort_keys=True)}))
    part.replace(path)


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
    """Read and check a float model. Raises FloatModelError."""
    header, tensors = _read(path)
    if header.get("format") != FORMAT:
        raise FloatModelError(f"{path}: format is {header.get('format')!r}, expected {FORMAT!r}")
    if header.get("version") != VERSION:
        raise FloatModelError(
            f"{path}: version is {header.get('version')!r}, expected {VERSION}: made by a newer program or damaged"
        )
    entries = _typed(path, header, "layers", list)
    if len(entries) > MAX_LAYERS:
        raise FloatModelError(f"{path}: has {len(entries)} layers, expected at most {MAX_LAYERS}")
    unused = set(tensors)
    layers = tuple(_layer(path, i, entry, tensors, unused) for i, entry in enumerate(entries))
    if unused:
        raise FloatModelError(f"{path}: tensor {sorted(unused)[0]!r} belongs to no layer, expected only used tensors")
    outputs = header.get("outputs", [header.get("output")])
    if not isinstance(outputs, list) or not all(isinstance(x, str) for x in outputs):
        raise FloatModelError(f"{path}: outputs is {outputs!r:.60}, expected names of tensors")
    usual = {key: _choice(path, key, header.get(key, _USUAL[key]), options) for key, options in _CHOICES.items()}
    model = FloatModel(
        name=_typed(path, header, "name", str),
        input_shape=_integers(path, "input_shape", header.get("input_shape"), 3),  # type: ignore[arg-type]
        layers=layers,
        outputs=tuple(outputs),
        task=_task(path, header),
        mean=_numbers(path, "mean", header.get("mean")),
        scale=_numbers(path, "scale", header.get("scale")),
        provenance=_typed(path, header, "provenance", dict),
        colour=_typed(path, {"colour": _USUAL["colour"], **header}, "colour", str),
        crop=usual["crop"],
        align=usual["align"],
        fill=_fill(path, header.get("fill", list(_USUAL["fill"]))),
    )
    check(model, str(path))
    return model


def _task(path: Path, header: dict[str, Any]) -> Task:
    if "task" in header:
        try:
            return task_from_document(header["task"])
        except ModelError as error:
            raise FloatModelError(f"{path}: {error}") from None
    labels = _typed(path, header, "labels", list)
    if not all(isinstance(x, str) for x in labels) or len(labels) > MAX_LABELS:
        raise FloatModelError(f"{path}: labels is not a list of at most {MAX_LABELS} strings")
    return Classification(tuple(labels))


def _choice(path: Path, key: str, value: object, options: tuple[str, ...]) -> Any:
    if value not in options:
        raise FloatModelError(f"{path}: {key} is {value!r:.60}, expected one of {', '.join(options)}")
    return value


def _fill(path: Path, value: object) -> tuple[int, ...]:
    return _integers(path, "fill", value, len(value) if isinstance(value, list) and 1 <= len(value) <= 4 else 1)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise FloatModelError(f"{path}: has {size} bytes, expected at most {MAX_BYTES}")
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get("edgemeta")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except OSError as error:
        raise FloatModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, FloatModelError):
            raise
        reason = " ".join(str(error).split())
        raise FloatModelError(f"{path}: not a complete safetensors file ({reason})") from error
    if text is None:
        raise FloatModelError(f"{path}: has no edgemeta header, expected a float model of this program")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FloatModelError(f"{path}: the header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise FloatModelError(f"{path}: the header is a {type(header).__name__}, expected an object")
    return header, tensors


def _layer(path: Path, i: int, entry: object, tensors: dict[str, NDArray[np.float32]], unused: set[str]) -> FloatLayer:
    op = entry.get("op") if isinstance(entry, dict) else None
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str) or not isinstance(op, str) or op not in _OPS:
        raise FloatModelError(f"{path}: layer {i} is {entry!r:.80}, expected a name and one op of {', '.join(_OPS)}")
    kind = _OPS[op]
    values: dict[str, Any] = {}
    for f in fields(kind):
        place, key = f"layer {name!r}: {f.name}", f"{name}.{f.name}"
        optional = f.default is not MISSING
        if f.name in _ARRAYS.get(kind, ()):
            if key in tensors:
                values[f.name] = tensors[key]
                unused.discard(key)
            elif not optional:
                raise FloatModelError(f"{path}: tensor {key!r} is missing, expected it for op {op}")
        elif f.name in entry:
            values[f.name] = _attribute(path, place, f.name, entry[f.name])
        elif not optional:
            raise FloatModelError(f"{path}: {place} is missing, expected it for op {op}")
    for key in entry:
        if key != "op" and key not in values:
            raise FloatModelError(f"{path}: layer {name!r} has an unknown entry {key!r}, expected those of op {op}")
    return kind(**values)


def _attribute(path: Path, place: str, name: str, value: object) -> object:
    if name in _LENGTHS:
        return _integers(path, place, value, _LENGTHS[name])
    if name == "inputs":
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise FloatModelError(f"{path}: {place} is {value!r:.60}, expected names of tensors")
        return tuple(value)
    if name in ("eps", "ceiling", "alpha", "beta"):
        return _number(path, place, value)
    if name == "groups":
        return _integers(path, place, [value], 1)[0]
    if name == "kind" and value not in ("max", "average"):
        raise FloatModelError(f"{path}: {place} is {value!r:.60}, expected max or average")
    if not isinstance(value, str):
        raise FloatModelError(f"{path}: {place} is {value!r:.60}, expected a string")
    return value


def _integers(path: Path, place: str, value: object, count: int) -> tuple[int, ...]:
    good = isinstance(value, list) and len(value) == count
    if not good or not all(type(v) is int and 0 <= v < 1 << 20 for v in value):  # type: ignore[attr-defined]
        raise FloatModelError(f"{path}: {place} is {value!r:.60}, expected {count} whole numbers below 2**20")
    return tuple(value)  # type: ignore[arg-type]


def _numbers(path: Path, place: str, value: object) -> tuple[float, ...]:
    values = value if isinstance(value, list) and 1 <= len(value) <= 4 else [value]
    return tuple(_number(path, place, each) for each in values)


def _number(path: Path, place: str, value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float(1 << 53)
    if not good:  # NaN and infinity are not below any number
        raise FloatModelError(f"{path}: {place} is {value!r:.60}, expected a finite number")
    return float(value)  # type: ignore[arg-type]


def _typed(path: Path, header: dict[str, Any], key: str, kind: type[Any]) -> Any:
    value = header.get(key)
    if not isinstance(value, kind):
        raise FloatModelError(f"{path}: {key} is {value!r:.60}, expected a {kind.__name__}")
    return value
