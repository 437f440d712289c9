"""What a field of a config record holds: a section, a section or null, a mapping of sections, or a plain value."""

from collections.abc import Sequence
from types import NoneType
from typing import Annotated, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the record of a field that is a section; None for any other field, also for a section that may be null."""
    return _record(field.annotation)


def optional_section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the record of a field that is a section or null; None for any other field."""
    kinds = get_args(field.annotation)
    return next(filter(None, map(_record, kinds)), None) if NoneType in kinds else None


def entries_of(field: FieldInfo) -> tuple[type[BaseModel], Sequence[object]] | None:
    """Return the record of a mapping's values and the metadata of their type; None for any other field."""
    if get_origin(field.annotation) is not dict:
        return None
    value = get_args(field.annotation)[1]
    kind, *metadata = get_args(value) if get_origin(value) is Annotated else (value,)
    record = _record(kind)
    return None if record is None else (record, metadata)


def _record(kind: object) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
