"""Turns a config of an older version into the present form; comments, order and spelling of the rest are kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from edgemeta.daemon.config.renamed import STEPS, Step
from edgemeta.model.errors import EdgemetaError


class MigrationError(EdgemetaError):
    """A key that cannot be moved without changing more than it; one sentence with its line. Exit code as a config's."""

    exit_code = 78


@dataclass(frozen=True)
class Change:
    """One key that has another name now; `new` is None for one that has none."""

    line: int
    former: str
    new: str | None

    def __str__(self) -> str:
        return f"line {self.line}: {self.former} {f'is {self.new} now' if self.new else 'does nothing and is removed'}"


@dataclass(frozen=True)
class _Entry:
    """A key in a text with what is around it. above: the entries that contain it, the outermost first."""

    path: tuple[str, ...]
    key: yaml.ScalarNode
    value: yaml.Node
    mapping: yaml.MappingNode
    above: tuple["_Entry", ...]


def migrated(text: str, steps: Sequence[Step] = STEPS) -> tuple[str, list[Change]]:
    """The text of a config after all steps, and what was changed. Raises MigrationError; invalid YAML as PyYAML."""
    changes: list[Change] = []
    for step in steps:
        while found := next(((each, new) for each in _entries(text) for new in step.new_of(each.path)), None):
            entry, new = found
            change = Change(entry.key.start_mark.line + 1, ".".join(entry.path), new)
            text = _checked(text, _changed(text, entry, new), entry.path, new, change)
            changes.append(change)
    return text, changes


def _entries(text: str) -> Iterator[_Entry]:
    """All entries of block and flow mappings, the outer ones first."""
    todo: list[tuple[yaml.Node | None, tuple[_Entry, ...]]] = [(yaml.compose(text, yaml.SafeLoader), ())]
    while todo:
        node, above = todo.pop()
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and isinstance(node, yaml.MappingNode):
                path = (*(above[-1].path if above else ()), key.value)
                entry = _Entry(path, key, value, node, above)
                yield entry
                todo.append((value, (*above, entry)))


def _changed(text: str, entry: _Entry, new: str | None) -> str:
    """The text with one entry removed, renamed in its place, or moved before the section, or in place of it."""
    path = tuple(new.split(".")) if new else ()
    if path and path[:-1] == entry.path[:-1]:
        return text[: entry.key.start_mark.index] + path[-1] + text[entry.key.end_mark.index :]
    start, end, emptied = _span(text, entry)
    if not path or path[:-1] != entry.path[: len(path) - 1]:
        return text[:start] + text[end:]
    section = entry.above[len(path) - 1]
    before = section.key.start_mark.index
    moved = f"{path[-1]}: {text[entry.value.start_mark.index : _end(text, entry.value)]}"
    if section in emptied:
        return text[:before] + moved + text[_end(text, section.value) :]
    column = before - (text.rfind("\n", 0, before) + 1)
    between = ", " if section.mapping.flow_style else "\n" + " " * column
    return text[:before] + moved + between + text[before:start] + text[end:]


def _span(text: str, entry: _Entry, emptied: tuple[_Entry, ...] = ()) -> tuple[int, int, tuple[_Entry, ...]]:
    """Where an entry begins and ends with what separates it from others, and the sections that are empty without it."""
    entries = entry.mapping.value
    if len(entries) == 1 and entry.above:
        return _span(text, entry.above[-1], (*emptied, entry.above[-1]))
    start, end = entry.key.start_mark.index, _end(text, entry.value)
    number = next(number for number, (key, _) in enumerate(entries) if key is entry.key)
    if not entry.mapping.flow_style:
        start, end = text.rfind("\n", 0, start) + 1, text.find("\n", end) + 1 or len(text)
    elif number + 1 < len(entries):
        end = entries[number + 1][0].start_mark.index
    elif number:
        start = _end(text, entries[number - 1][1])
    return start, end, emptied


def _end(text: str, node: yaml.Node) -> int:
    """Where the last character of a node is, plus 1: marks of block nodes are behind the comments that follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(node, yaml.MappingNode) else last)
    return len(text[: node.end_mark.index].rstrip())


def _checked(before: str, after: str, path: tuple[str, ...], new: str | None, change: Change) -> str:
    """The new text if its values are those of the old one but for the key. Raises MigrationError."""
    expected = yaml.safe_load(before)
    value = _taken(expected, path)
    if new is not None:
        *sections, name = new.split(".")
        place = expected
        for section in sections:
            place = place.setdefault(section, {})
        if name in place:
            raise MigrationError(f"line {change.line}: {change.former} and {new} are both given, expected one of them")
        place[name] = value
    try:
        is_right = yaml.safe_load(after) == expected
    except yaml.YAMLError:
        is_right = False
    if not is_right:
        raise MigrationError(f"{change}, and this text cannot be changed by a program: expected it to be moved by hand")
    return after


def _taken(mapping: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Take the value at a path out of nested mappings, and those that are empty then."""
    value = mapping.pop(path[0]) if len(path) == 1 else _taken(mapping[path[0]], path[1:])
    if len(path) > 1 and not mapping[path[0]]:
        del mapping[path[0]]
    return value
