"""Converts a model to a JSON object and named tensors, and back.

The dataclasses of `graph` and `layers` define the format: a record becomes an object with one key per field, and "kind"
where several records are possible; an array becomes the name of its tensor, "<layer>.<field>". Weights are packed by
`stored_weights`. Reading is strict: an unknown, missing or ill-typed key, or a tensor that is not referenced, is an
error. Whether the values are valid is checked by `prove`.
"""

import dataclasses
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, Model, Preprocessing, SelfTest
from edgemeta.model.layers import Layer, Multiplier, ShiftTable, TableRecipe, TensorType
from edgemeta.model.layers.products import W
from edgemeta.model.require import shown
from edgemeta.model.stored_weights import StoredBinary, StoredFixed, StoredPowerOfTwo, StoredWeights, store
from edgemeta.model.tasks import (
    Classification,
    Detection,
    DetectionLevel,
    Embedding,
    Keypoints,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Raw,
    Rejection,
    Segmentation,
    Task,
)
from edgemeta.model.weights import Weights

KINDS: Mapping[str, type[Any]] = {layer.kind: layer for layer in get_args(Layer)} | {
    "binary": StoredBinary,
    "classification": Classification,
    "detection": Detection,
    "embedding": Embedding,
    "fixed": StoredFixed,
    "multi_label": MultiLabel,
    "multiplier": Multiplier,
    "power_of_two": StoredPowerOfTwo,
    "keypoints": Keypoints,
    "object_masks": ObjectMasks,
    "object_points": ObjectPoints,
    "raw": Raw,
    "segmentation": Segmentation,
    "recipe": TableRecipe,
    "shift_table": ShiftTable,
}
"""Records by their value of "kind"."""

OPTIONAL: Mapping[type, Mapping[str, Any]] = {
    Classification: {"temperature": 1.0, "rejection": None},
    Detection: {
        "background": False,
        "box_order": "xywh",
        "score_threshold": 0.4,
        "overlap_threshold": 0.5,
        "label_overlap": None,
        "max_objects": 100,
        "bins": 16,
        "origin": 0.5,
        "variances": [0.1, 0.2],
        "softmax": False,
        "powers": [1.0, 1.0],
        "extras": None,
    },
    DetectionLevel: {"objectness": None, "anchors": [], "stride": None, "extras": None, "sizes": None},
    Model: {"self_test": None},
    MultiLabel: {"score_threshold": 0.5},
    Preprocessing: {"fill": [0], "align": "center"},
    Rejection: {"outputs": []},
    Keypoints: {"layout": "xy", "unit": "pixels"},
    ObjectPoints: {"layout": "xy", "origin": 0.5, "factor": 1.0, "unit": "stride"},
    Segmentation: {"score_threshold": 0.5, "least_share": 0.01},
    TableRecipe: {"alpha": 0.0, "beta": 0.0},
    **{layer: layer.optional for layer in get_args(Layer)},
}
"""Optional fields with their defaults as in a document; a field that has its default is not written."""

MAX_WEIGHTS = 1 << 27
"""Greatest number of unpacked weights in one file."""

_NAMES = {record: kind for kind, record in KINDS.items()}


def hints_of(record: type[Any]) -> Mapping[str, Any]:
    """Type hints of a record's fields; without the digest, since no file can contain its own."""
    hints = {name: Weights if hint is W else hint for name, hint in get_type_hints(record).items()}
    return {each.name: hints[each.name] for each in dataclasses.fields(record) if each.name != "digest"}


_PARTS = (DetectionLevel, Model, Preprocessing, Rejection, SelfTest, TensorType)
_HINTS: Mapping[type, Mapping[str, Any]] = {record: hints_of(record) for record in (*KINDS.values(), *_PARTS)}
"""Type hints of the fields in a file."""
_SCALARS: Mapping[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "text"}

_ARRAY = (np.ndarray, get_origin(NDArray[Any]))
"""Origin of an array's type hint: NumPy's class, or since NumPy 2.5 its alias NDArray."""


def records() -> Mapping[str, type[Any]]:
    """All records of a file: by "kind", or by the class's name where only one is possible."""
    return {**KINDS, **{part.__name__: part for part in _PARTS}}


Tensors = dict[str, NDArray[Any]]
"""Arrays [...] of a model by their names in its file."""


def to_document(model: Model) -> tuple[dict[str, Any], Tensors]:
    """Return the JSON object and the tensors of a proved model."""
    tensors: Tensors = {}
    return _write_record(model, INPUT, tensors), tensors


def from_document(document: object, tensors: Tensors) -> Model:
    """Inverse of `to_document`. Raises ModelError; the text begins with the path in the document."""
    reader = _Reader(tensors)
    model: Model = reader.read_record(Model, document, "model", INPUT)
    reader.refuse_unread()
    return model


def task_to_document(task: Task) -> dict[str, Any]:
    """The JSON object of a task."""
    return _write_record(task, INPUT, {})


def task_from_document(document: object, path: str = "task") -> Task:
    """Inverse of `task_to_document`. Raises ModelError; the text begins with `path`."""
    task: Task = _Reader({}).read(Task, document, path, INPUT)
    return task


def read_value(hint: Any, value: object, path: str) -> Any:
    """A JSON value without tensors as what a type hint says. Raises ModelError; the text begins with `path`."""
    return _Reader({}).read(hint, value, path, INPUT)


def _write_record(record: Any, owner: str, tensors: Tensors) -> dict[str, Any]:
    if isinstance(record, get_args(Layer)):
        owner = record.name
    optional = OPTIONAL.get(type(record), {})
    fields = {name: _write(getattr(record, name), owner, name, tensors) for name in _HINTS[type(record)]}
    fields = {name: value for name, value in fields.items() if name not in optional or value != optional[name]}
    return fields | ({"kind": _NAMES[type(record)]} if type(record) in _NAMES else {})


def _write(value: Any, owner: str, field: str, tensors: Tensors) -> Any:
    if isinstance(value, np.ndarray):
        tensors[f"{owner}.{field}"] = value
        return f"{owner}.{field}"
    if isinstance(value, get_args(Weights)):
        return _write_record(store(value), owner, tensors)
    if dataclasses.is_dataclass(value):
        return _write_record(value, owner, tensors)
    if isinstance(value, tuple):
        return [_write(item, owner, field, tensors) for item in value]
    return value.item() if isinstance(value, np.generic) else value


class _Reader:
    """Reads JSON values by type hint. path: the position that errors name; owner: the layer that owns the tensors."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._unread = set(tensors)
        self._weights = 0

    def refuse_unread(self) -> None:
        if self._unread:
            raise ModelError(f"tensor {shown(min(self._unread))} belongs to no layer")

    def read(self, hint: Any, value: object, path: str, owner: str) -> Any:
        if hint in _SCALARS:
            return _read_scalar(hint, value, path)
        if hint == Weights:
            return self._read_weights(value, path, owner)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return _one_of(arguments, value, path)
        if origin is tuple:
            return self._read_tuple(arguments, value, path, owner)
        if origin is Mapping:
            return _read_object(value, None, path)
        options = arguments if origin in (Union, UnionType) else (hint,)
        if NoneType in options:
            if value is None:
                return None
            options = tuple(each for each in options if each is not NoneType)
            if len(options) == 1:
                return self.read(options[0], value, path, owner)
        records = tuple(each for each in options if get_origin(each) not in _ARRAY)
        if not records or (len(records) < len(options) and isinstance(value, str)):
            return self._read_array(value, path, owner)
        return self.read_record(self._record_type(records, value, path), value, path, owner)

    def read_record(self, record: type[Any], value: object, path: str, owner: str) -> Any:
        fields, optional = _HINTS[record], OPTIONAL.get(record, {})
        keys = set(fields) | ({"kind"} if record in _NAMES else set())
        document = {**optional, **_read_object(value, keys, path, set(optional))}
        if record in get_args(Layer):
            owner = _read_scalar(str, document["name"], f"{path}.name")
        return record(
            **{name: self.read(hint, document[name], f"{path}.{name}", owner) for name, hint in fields.items()}
        )

    def _record_type(self, options: tuple[Any, ...], value: object, path: str) -> type[Any]:
        """The record that "kind" selects, or the only possible one."""
        kinds = [_NAMES[option] for option in options if option in _NAMES]
        if not kinds:
            record: type[Any] = options[0]
            return record
        if not isinstance(value, dict) or "kind" not in value:
            _refuse(path, value, 'an object with a key "kind"')
        kind: str = _one_of(kinds, value["kind"], f"{path}.kind")
        return KINDS[kind]

    def _read_weights(self, value: object, path: str, owner: str) -> Weights:
        stored: StoredWeights = self.read(StoredWeights, value, path, owner)
        if not all(1 <= side <= MAX_WEIGHTS for side in stored.shape):
            _refuse(f"{path}.shape", list(stored.shape), f"sides of 1 .. {MAX_WEIGHTS}")
        self._weights += stored.count
        if self._weights > MAX_WEIGHTS:
            raise ModelError(f"{path}: the model has more than {MAX_WEIGHTS} weights")
        try:
            return stored.restore()
        except ValueError as error:
            raise ModelError(f"{path}: {error}") from None

    def _read_tuple(self, arguments: tuple[Any, ...], value: object, path: str, owner: str) -> tuple[Any, ...]:
        is_open = arguments[-1] is Ellipsis
        if not isinstance(value, list) or not (is_open or len(value) == len(arguments)):
            _refuse(path, value, "a list" if is_open else f"a list of {len(arguments)}")
        hints = arguments[:1] * len(value) if is_open else arguments
        return tuple(
            self.read(hint, item, f"{path}[{i}]", owner)
            for i, (hint, item) in enumerate(zip(hints, value, strict=True))
        )

    def _read_array(self, value: object, path: str, owner: str) -> NDArray[Any]:
        name = f"{owner}.{path.rpartition('.')[2]}"
        if value != name:
            _refuse(path, value, f"the tensor name {shown(name)}")
        if name not in self._tensors:
            raise ModelError(f"{path}: tensor {shown(name)} is missing")
        self._unread.discard(name)
        return self._tensors[name]


def _refuse(path: str, found: object, expected: str) -> NoReturn:
    raise ModelError(f"{path} is {shown(found)}, expected {expected}")


def _read_scalar(kind: type, value: object, path: str) -> Any:
    if kind is float and type(value) is int:
        with suppress(OverflowError):
            value = float(value)
    if type(value) is not kind:
        _refuse(path, value, _SCALARS[kind])
    return value


def _one_of(options: Any, value: object, path: str) -> Any:
    if value not in options:
        _refuse(path, value, f"one of {', '.join(map(repr, options))}")
    return value


def _read_object(
    value: object, keys: set[str] | None, path: str, optional: Collection[str] = frozenset()
) -> dict[str, Any]:
    """Return an object that has exactly these keys, except for optional ones; keys None accepts any object."""
    if not isinstance(value, dict):
        _refuse(path, value, "an object")
    if keys is None:
        return value
    for key in sorted(keys - set(value) - set(optional)):
        raise ModelError(f"{path} has no key {key!r}")
    for key in sorted(set(value) - keys):
        raise ModelError(f"{path} has the unknown key {shown(key)}")
    return value
