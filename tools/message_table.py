"""The topics of a device and the fields of its messages, from the channels and the records."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from edgemeta.daemon.messages.channels import CHANNELS, Channel
from edgemeta.daemon.messages.records import Message

PLAIN = {"boolean": "true or false", "integer": "integer", "number": "number", "string": "text"}
COUNTED = {"integer": "integers", "number": "numbers"}


def topics() -> str:
    """A row for each topic."""
    rows = (
        f"| `{_topic(channel)}` | {_yes(channel.retain)} | {_yes(channel.kept)} | {channel.summary} |"
        for channel in CHANNELS
    )
    return "\n".join(("| topic | retained | kept | message |", "|---|---|---|---|", *rows))


def _topic(channel: Channel) -> str:
    return channel.address.replace("{", "<").replace("}", ">")


def _yes(stated: bool) -> str:
    return "yes" if stated else "no"


def records() -> list[type[BaseModel]]:
    """What all messages have, the messages in the order of the topics, then the records inside them."""
    messages = [channel.message for channel in CHANNELS if channel.message is not None]
    found: list[type[BaseModel]] = [Message, *messages]
    for record in messages:
        _add_parts(record, found)
    return found


def _add_parts(kind: Any, found: list[type[BaseModel]]) -> None:
    """Append every record of a type, such as of `list[FoundObject] | None`, that is not among those found."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind not in found:
            found.append(kind)
        for field in kind.model_fields.values():
            _add_parts(field.annotation, found)
    for inner in get_args(kind):
        _add_parts(inner, found)


def sections() -> str:
    """A section for each record: its topic, what it is, and a table of its fields."""
    return "\n".join(line for record in records() for line in _section(record))


def _section(record: type[BaseModel]) -> Iterator[str]:
    yield from (f"## {record.__name__}", "", " ".join((*_places(record), inspect.getdoc(record) or "")), "")
    yield from ("| field | type | meaning |", "|---|---|---|")
    schema = record.model_json_schema(mode="serialization")
    common = Message.model_fields if issubclass(record, Message) and record is not Message else ()
    for name, field in record.model_fields.items():
        if name not in common:
            optional = "" if name in schema.get("required", ()) else ", optional"
            kind = kind_of(schema["properties"][name], schema.get("$defs", {}))
            yield f"| `{name}` | {kind}{optional} | {field.description} |"
    yield ""


def _places(record: type[BaseModel]) -> Iterator[str]:
    for channel in CHANNELS:
        if channel.message is record:
            yield f"Topic `{_topic(channel)}`{', sent by you' if channel.received else ''}."


def kind_of(schema: dict[str, Any], parts: dict[str, Any]) -> str:
    """A field's type in plain text; a record is linked. parts: `$defs` of the whole schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if not parts[name]:
            return "any value"
        return kind_of(parts[name], parts) if "enum" in parts[name] else f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind_of(each, parts) for each in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    match schema["type"]:
        case "array":
            return _list_of(schema, parts)
        case "object":
            named = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
            return f"{kind_of(named[0], parts)} by name"
        case "string" if schema.get("format") == "date-time":
            return "time"
        case kind:
            return PLAIN.get(kind, kind)


def _list_of(schema: dict[str, Any], parts: dict[str, Any]) -> str:
    items = schema.get("items") or schema["prefixItems"][0]
    kind = COUNTED.get(items.get("type", "")) or kind_of(items, parts)
    fixed = schema.get("minItems") if "prefixItems" in schema else None
    most = f", at most {schema['maxItems']}" if fixed is None and "maxItems" in schema else ""
    return f"list of {kind}{most}" if fixed is None else f"{fixed} {kind}"
