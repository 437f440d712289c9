"""What users of edgemeta build on, read from the code: the sections of docs/stable.json (tools.promise)."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import click

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.messages.channels import CHANNELS
from edgemeta.model import document, file
from edgemeta.model.errors import EdgemetaError
from edgemeta.plugins import api, registry
from tools.option_table import commands

HEADER = Path(__file__).parent.parent / "kernels/cpu/src/edgemeta_cpu.h"

Bounds: TypeAlias = list[Any]
Entry: TypeAlias = dict[str, Any]
"""`is`: kinds of value, each with its bounds: [least, most] of numbers and lengths, null without one, or empty without
any; `words` are single values. `required`: whether it must be there, or always is. `default`: what leaving it out
means. An entry of a fixed section has its text in `is`."""
Surface: TypeAlias = Mapping[str, Entry]
Entries: TypeAlias = Iterator[tuple[str, Entry]]

_LIMITS = (
    ("minimum", "exclusiveMinimum", "minLength", "minItems"),
    ("maximum", "exclusiveMaximum", "maxLength", "maxItems"),
)


def of_schema(schema: Mapping[str, Any], prefix: str = "") -> Entries:
    """The values of a JSON Schema by dotted name; `*` is any key of a mapping, `[]` an item of a list."""
    yield from _walk(schema, prefix, schema.get("$defs", {}), required=False)


def _walk(node: Mapping[str, Any], name: str, records: Mapping[str, Any], required: bool) -> Entries:
    kinds: dict[str, Bounds] = {}
    below: dict[str, Entry] = {}
    for each in node.get("anyOf", [node]):
        kind = records[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        kinds |= _kinds(kind)
        below |= dict(_below(kind, name, records))
    if name:
        entry: Entry = {"is": kinds} | ({"required": True} if required else {})
        default = node.get("default")
        is_section = any(key.startswith(f"{name}.") and not key.startswith(f"{name}.*") for key in below)
        yield name, entry | ({} if default is None or is_section else {"default": default})
    yield from below.items()


def _kinds(schema: Mapping[str, Any]) -> dict[str, Bounds]:
    if "enum" in schema or "const" in schema:
        return {"words": schema.get("enum", [schema.get("const")])}
    form = schema.get("format") or schema.get("pattern")
    kind = f"{schema.get('type', 'any')}{f' {form}' if form else ''}"
    bounds = [next((schema[key] for key in keys if key in schema), None) for keys in _LIMITS]
    return {kind: [] if bounds == [None, None] else bounds}


def _below(schema: Mapping[str, Any], name: str, records: Mapping[str, Any]) -> Entries:
    """What is in an object or a list; a field is "required" where its object is there."""
    for field, each in schema.get("properties", {}).items():
        yield from _walk(each, f"{name}.{field}".strip("."), records, field in schema.get("required", ()))
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from _walk(others, f"{name}.*".strip("."), records, required=False)
    items = [*schema.get("prefixItems", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else ())]
    for number, each in enumerate(items):
        yield from _walk(each, f"{name}[{number if 'prefixItems' in schema else ''}]", records, required=False)


def _config() -> Entries:
    return of_schema(Config.model_json_schema())


def _messages(received: bool) -> Entries:
    for channel in CHANNELS:
        if channel.message is not None and channel.received == received:
            mode: Literal["validation", "serialization"] = "validation" if received else "serialization"
            yield from of_schema(channel.message.model_json_schema(mode=mode), channel.name)


def _topics() -> Entries:
    for each in CHANNELS:
        yield each.name, {"is": f"{each.address} {each.media}{' retained' if each.retain else ''}"}


def _options() -> Entries:
    for words, command in commands():
        yield words, {"is": {"command": []}}
        for parameter in command.params:
            name = parameter.opts[0] if isinstance(parameter, click.Option) else (parameter.name or "").upper()
            choices = list(parameter.type.choices) if isinstance(parameter.type, click.Choice) else []
            kinds: dict[str, Bounds] = {"words": choices} if choices else {"string": []}
            if isinstance(parameter, click.Option) and parameter.is_flag:
                kinds = {"flag": []}
            yield f"{words}.{name}", {"is": kinds} | ({"required": True} if parameter.required else {})


def _model_file() -> Entries:
    yield "version", {"is": {"words": [file.VERSION]}, "required": True}
    for name, record in document.records().items():
        yield name, {"is": {"record": []}}
        optional = document.OPTIONAL.get(record, {})
        for field, hint in document.hints_of(record).items():
            entry: Entry = {"is": dict(_kinds_of_hint(hint))}
            yield f"{name}.{field}", entry | ({"default": optional[field]} if field in optional else {"required": True})


def _kinds_of_hint(hint: Any) -> Iterator[tuple[str, Bounds]]:
    """The kinds of a type hint, the same by every version of Python and NumPy."""
    match get_origin(hint), get_args(hint):
        case origin, words if origin is Literal:
            yield "words", list(words)
        case origin, kinds if origin in (Union, UnionType):
            for each in kinds:
                yield from _kinds_of_hint(each)
        case origin, (kind, *rest) if origin is tuple and rest in ([], [Ellipsis]):
            yield from ((f"list of {name}", bounds) for name, bounds in _kinds_of_hint(kind))
        case origin, kinds if origin is tuple:
            yield f"list of {', '.join(name for kind in kinds for name, _ in _kinds_of_hint(kind))}", []
        case _, _ if "darray" in str(hint).lower():
            yield "tensor", []
        case _:
            yield "null" if hint is NoneType else getattr(hint, "__name__", str(hint)), []


def _plugin_api() -> Entries:
    yield "entry point", {"is": registry.GROUP}
    yield "required of a backend", {"is": " ".join(registry.REQUIRED)}
    for kind in (api.Backend, api.Session, api.FrameSession):
        for name, method in vars(kind).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                yield f"{kind.__name__}.{name}", {"is": f"({', '.join(inspect.signature(method).parameters)})"}
    yield "Probe", {"is": " ".join(each.name for each in dataclasses.fields(api.Probe))}
    for error in (api.BackendError, api.OptionError, api.SessionLostError):
        yield error.__name__, {"is": " ".join(each.__name__ for each in error.__mro__[1:-2])}


def _c_interface() -> Entries:
    """Functions, types and constants, but for the version of the bytes of a plan, which only says what fits."""
    plain = re.sub(r"//.*|#.*", "", HEADER.read_text("utf-8"))
    for declaration in re.split(r";", " ".join(plain.split()).replace('extern "C" {', "")):
        if names := re.match(r" ?enum \{(.*)\}", declaration):
            constants = (each.split("=") for each in names[1].split(",") if "EM_ABI_VERSION" not in each)
            yield from ((name.strip(), {"is": value.strip()}) for name, value in constants)
        elif name := re.search(r"(\w+)(?=\()|\w+$", declaration.strip()):
            yield name[0], {"is": declaration.strip()}


def _exit_codes() -> Entries:
    for meaning, error in (("failure", EdgemetaError), ("usage", click.UsageError), ("config", ConfigError)):
        yield meaning, {"is": str(error.exit_code)}


SECTIONS: Mapping[str, Callable[[], Entries]] = {
    "config": _config,
    "topics": _topics,
    "messages": lambda: _messages(received=False),
    "commands over MQTT": lambda: _messages(received=True),
    "model file": _model_file,
    "options": _options,
    "plugin API": _plugin_api,
    "C interface": _c_interface,
    "exit codes": _exit_codes,
}
