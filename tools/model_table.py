"""Tables of the model file: what every operator computes, and the keys of every other record, from the records."""

import inspect
import json
import re
from collections.abc import Iterable
from typing import Any, get_args

from edgemeta.model.document import KINDS, OPTIONAL, hints_of
from edgemeta.model.graph import Model, Preprocessing, SelfTest
from edgemeta.model.layers import Layer, Multiplier, ShiftTable, TableRecipe, TensorType
from edgemeta.model.stored_weights import StoredBinary, StoredFixed, StoredPowerOfTwo
from edgemeta.model.tasks import DetectionLevel, ObjectMasks, ObjectPoints, Rejection, Task

RECORDS = (Model, Preprocessing, SelfTest, TensorType, Multiplier, ShiftTable, TableRecipe)
WEIGHTS = (StoredFixed, StoredPowerOfTwo, StoredBinary)
OF_TASKS = (Rejection, DetectionLevel, ObjectPoints, ObjectMasks)
_NAMES = {record: kind for kind, record in KINDS.items()}
_OF_EVERY_LAYER = {"name", "input", "inputs", "output"}


def operators() -> str:
    """The operators of integer networks, with the keys that they have beside those of every layer."""
    return _table("further keys", get_args(Layer), _OF_EVERY_LAYER)


def records() -> str:
    """The model and what it is made of, but for layers and tasks."""
    return _table("keys", (*RECORDS, *WEIGHTS))


def tasks() -> str:
    """What outputs mean: the tasks, and the records that these have."""
    return _table("keys", (*get_args(Task), *OF_TASKS))


def _table(title: str, kinds: Iterable[type[Any]], left_out: Iterable[str] = ()) -> str:
    rows = (f"| {_name(kind)} | {_keys(kind, set(left_out))} | {meaning(kind)} |" for kind in kinds)
    return "\n".join((f"| record | {title} | meaning |", "|---|---|---|", *rows))


def _name(kind: type[Any]) -> str:
    """The value of "kind", or what the record is where it has none."""
    return f"`{_NAMES[kind]}`" if kind in _NAMES else re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


def _keys(kind: type[Any], left_out: set[str]) -> str:
    optional = OPTIONAL.get(kind, {})
    keys = (key for key in hints_of(kind) if key not in left_out)
    return ", ".join(f"`{key}` ({json.dumps(optional[key])})" if key in optional else f"`{key}`" for key in keys)


def meaning(kind: type[Any]) -> str:
    """The docstring of a record in one cell of a table, its paragraphs and lists as lines."""
    blocks = re.split(r"\n\n|\n(?=- )", inspect.getdoc(kind) or "")
    return "<br>".join(_escaped(" ".join(block.split())) for block in blocks)


def _escaped(text: str) -> str:
    """Without emphasis and tags: characters of Markdown escaped, but for those in code."""
    parts = text.split("`")
    return "`".join(part if index % 2 else re.sub(r"([*|<])", r"\\\1", part) for index, part in enumerate(parts))
