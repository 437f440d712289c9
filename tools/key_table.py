"""The table of all config keys in docs/configuration.md, from the records."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.fields import entries_of, optional_section_of, section_of
from edgemeta.daemon.config.reloading import Applies, marker

PLAIN = {"array": "list", "boolean": "true or false", "null": "null", "object": "mapping", "string": "text"}
HEAD = ("| key | value | default | applies | meaning |", "|---|---|---|---|---|")


class Key(NamedTuple):
    """One key: its dotted name, with `<name>` for an entry of a mapping, its field, its JSON Schema and its mark."""

    name: str
    field: FieldInfo
    schema: dict[str, Any]
    applies: Applies


def keys(section: type[BaseModel] = Config, prefix: str = "", inherited: Applies = Applies.RESTART) -> Iterator[Key]:
    """Return the keys of a record and of the sections below it, in their order.

    A section that may be null is one key: its own keys are those of the section of the same name at the top.
    """
    schemas = section.model_json_schema(mode="serialization")
    for name, field in section.model_fields.items():
        mark, below = marker(field.metadata, inherited), section_of(field)
        if below is not None:
            yield from keys(below, f"{prefix}{name}.", mark)
            continue
        yield Key(f"{prefix}{name}", field, schemas["properties"][name], mark)
        if (entries := entries_of(field)) is not None:
            yield from keys(entries[0], f"{prefix}{name}.<name>.", marker(entries[1], mark))


def table() -> str:
    """Return the table as Markdown."""
    rows = (
        f"| `{key.name}` | {value(key)} | {default(key)} | {key.applies.value} | {key.field.description} |"
        for key in keys()
    )
    return "\n".join((*HEAD, *rows))


def value(key: Key) -> str:
    """Return which values a key takes."""
    if optional_section_of(key.field) is not None:
        return "mapping or null"
    return _kind(key.schema)


def default(key: Key) -> str:
    """Return a key's default as it would be written in the config."""
    if key.field.default_factory is not None:
        return "host name"
    match key.field.default:
        case found if found is PydanticUndefined:
            return "required"
        case None:
            return "`null`"
        case bool(found):
            return "`true`" if found else "`false`"
        case float(found):
            return f"`{found:.10g}`"
        case found:
            return f"`{found}`"


def _kind(schema: dict[str, Any]) -> str:
    """Return a JSON Schema's type and bounds in plain text."""
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    match schema["type"]:
        case "integer" | "number" as number:
            return f"{'whole number' if number == 'integer' else 'number'}{_bounds(schema)}"
        case kind:
            return PLAIN[kind]


def _bounds(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if least is not None and most is not None:
        return f", {least:.10g} to {most:.10g}"
    bounds = (("above", above), ("at least", least), ("below", below), ("at most", most))
    return "".join(f", {text} {bound:.10g}" for text, bound in bounds if bound is not None)
