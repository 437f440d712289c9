"""What a field of a config record holds: a section, a section or null, a mapping of sections, or a plain value."""

from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Annotated, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgemeta.daemon.config.section import Relative


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


def relative_mark(field: FieldInfo) -> Relative | None:
    """Return how a field's value, or each of its list, is resolved against the config file's folder; None: not."""
    return next((each for each in (*field.metadata, *_metadata(field.annotation)) if isinstance(each, Relative)), None)


def _metadata(kind: object) -> Iterator[object]:
    """Return the metadata of a type and of those that it is made of."""
    if get_origin(kind) is Annotated:
        yield from get_args(kind)[1:]
    for part in get_args(kind):
        yield from _metadata(part)


def _record(kind: object) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
