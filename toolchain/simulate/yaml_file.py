"""YAML files as checked records: what is wrong is named with file and line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from edgemeta.toolchain.errors import SimulateError

M = TypeVar("M", bound=BaseModel)

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


def read_entries(given: Path | Mapping[str, Any], name: str) -> tuple[object, Source]:
    """The entries of a YAML file, or those of a mapping, which is called `name`. Raises SimulateError."""
    if not isinstance(given, Path):
        return dict(given), Source(name)
    try:
        text = given.read_text("utf-8")
        return yaml.safe_load(text), Source(str(given), yaml.compose(text, Loader=yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise SimulateError(f"{given} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise SimulateError(f"{given} is not valid YAML: {' '.join(str(error).split())}") from error


def checked(kind: type[M], entries: object, source: Source) -> M:
    """The record of the entries. Raises SimulateError, which names the place of what is wrong."""
    try:
        return kind.model_validate(entries)
    except ValidationError as error:
        first = error.errors()[0]
        place = tuple(part for part in first["loc"] if part not in ("function-before", "function-after"))
        key = ".".join(str(part) for part in place) or "the whole"
        raise SimulateError(f"{source.at(place)}: {key}: {first['msg'].removeprefix('Value error, ')}") from error
