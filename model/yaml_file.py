"""YAML files as checked records: what is wrong is named with file and line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import why

M = TypeVar("M")

Place = tuple[int | str, ...]
"""The way to an entry: keys of mappings and numbers, from 0, in lists."""


@dataclass(frozen=True)
class Source:
    """Where entries come from: a name for messages, and the parsed text where it is a file."""

    name: str
    node: yaml.Node | None = None

    def at(self, place: Place) -> str:
        """The name, with the line of the entry at a place, or of the last part of the place that exists."""
        if self.node is None:
            return self.name
        node, found = self.node, self.node.start_mark.line + 1
        for step in place:
            if isinstance(node, yaml.MappingNode):
                pairs = {key.value: (key, value) for key, value in node.value}
                if step not in pairs:
                    break
                key, node = pairs[step]
                found = key.start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                found = node.start_mark.line + 1
            else:
                break
        return f"{self.name} line {found}"


def read_entries(given: Path | Mapping[str, Any], name: str, error: type[EdgemetaError]) -> tuple[object, Source]:
    """The entries of a YAML file, or those of a mapping, which is called `name`. Raises `error`."""
    if not isinstance(given, Path):
        return dict(given), Source(name)
    try:
        text = given.read_text("utf-8")
        return yaml.safe_load(text), Source(str(given), yaml.compose(text, Loader=yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as reason:
        raise error(f"{given} cannot be read: {why(reason)}") from reason
    except yaml.YAMLError as reason:
        raise error(f"{given} is not valid YAML: {' '.join(str(reason).split())}") from reason


def checked(kind: type[M], entries: object, source: Source, error: type[EdgemetaError]) -> M:
    """The record of the entries, a pydantic model or a dataclass. Raises `error`, naming the place of what is wrong."""
    try:
        return TypeAdapter(kind).validate_python(entries)
    except ValidationError as mistakes:
        first = mistakes.errors()[0]
        place = tuple(part for part in first["loc"] if part not in ("function-before", "function-after"))
        key, found = ".".join(str(part) for part in place) or "the whole", first["input"]
        text = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            text = "there is no such entry"
        elif first["type"] != "value_error" and isinstance(found, bool | int | float | str | None):
            text = f"{text}, found {'nothing' if found is None else repr(found)}"
        raise error(f"{source.at(place)}: {key}: {text}") from mistakes
