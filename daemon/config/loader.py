"""Loads a YAML file as a record, or reports all its mistakes: file, line, key, what was found and expected."""

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from edgemeta.daemon.config.error_text import expected, shown
from edgemeta.daemon.config.fields import entries_of, optional_section_of, section_of
from edgemeta.daemon.config.renamed import new_name
from edgemeta.daemon.config.shown_text import without_addresses
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import FileError, read_small_file

SUBSTITUTES = "a secret is given by `password_file` or `password_env`"

MAX_BYTES = 1_000_000
"""A config is a page or two; a larger file is something else."""

FORMER_NAME = "the key's former name"
"""What was found where a key has been renamed; its new name is what was expected."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML has it: ten times as fast."""

KeyPath: TypeAlias = tuple[str | int, ...]
Record = TypeVar("Record", bound=BaseModel)

SECRETS = frozenset({"password", "token"})
"""Keys whose values are never printed."""

MOST_DIGITS = 40
"""Characters of a number, more than any key takes: Python refuses to print far longer ones."""

MOST_MISTAKES = 50
"""Mistakes that are reported; the others are counted."""

_NAMED = re.compile(r"\b(alias|anchor|tag) '.*'")
"""YAML reads an unquoted password that starts with '*', '&' or '!' as one of these; its error quotes the text."""


@dataclass(frozen=True)
class Problem:
    """One mistake, at one key of a config."""

    path: KeyPath
    found: str
    expected: str

    @property
    def shown(self) -> tuple[str, str, str]:
        """The dotted key, what was found and what was expected."""
        return _dotted(self.path), self.found, self.expected


@dataclass(frozen=True)
class Mistake:
    """A problem with its position: line from 1, 0 for the whole file; dotted key, empty without one."""

    file: str
    line: int
    key: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f"{self.key}: " if self.key else ""
        if self.found == FORMER_NAME:
            return _one_line(f"{place}: {key}renamed to {self.expected}")
        return _one_line(f"{place}: {key}found {self.found}, expected {self.expected}")


class ConfigError(EdgemetaError):
    """An invalid config, with one line per mistake. The exit code is 78 (EX_CONFIG of sysexits.h)."""

    exit_code = 78

    def __init__(self, *mistakes: Mistake) -> None:
        shown = [str(mistake) for mistake in mistakes[:MOST_MISTAKES]]
        rest = len(mistakes) - len(shown)
        super().__init__("\n".join([*shown, *([f"and {rest} more mistakes"] if rest else [])]))
        self.mistakes = mistakes


class ConfigFile(Generic[Record]):
    """A parsed YAML file of a record, such as Config. It is kept as YAML nodes, which have the line of every key.

    text: its content where that is not to be read from the file.
    """

    def __init__(self, path: Path, record: type[Record], text: str | None = None) -> None:
        self.path = path
        self.text = _read(path) if text is None else text
        self._record = record
        self._root, self._data = _parse(path, self.text)

    def validate(self) -> tuple[Record | None, list[Problem]]:
        """Validate every key. Without problems the record is complete.

        With problems the wrong keys have their defaults, so that further checks of the other keys are possible; None if
        a key without a default is wrong.
        """
        self._lines, problems = _walked(self._root)
        try:
            record = self._record.model_validate(self._data)
        except ValidationError as error:
            reported = {problem.path for problem in problems}
            details = error.errors(include_url=False)
            found = [_problem(self._record, detail) for detail in details]
            problems += [problem for problem in found if problem.path not in reported]
        else:
            return record, problems
        if len(problems) > MOST_MISTAKES:
            return None, problems
        remains = self._data
        for problem in problems:
            remains = _without(remains, problem.path)
        try:
            return self._record.model_validate(remains), problems
        except ValidationError:
            return None, problems

    def laid_over(self, values: Mapping[str, object]) -> "ConfigFile[Record]":
        """Return the file as if it had these values, by their dotted keys."""
        other = copy(self)
        for key, value in values.items():
            other._data = _with(other._data, key.split("."), value)
        return other

    def error(self, problems: list[Problem]) -> ConfigError:
        """Return the problems as an error, in the order of the file's lines."""
        placed = sorted(((self._line(p.path), p) for p in problems), key=lambda pair: pair[0])
        return ConfigError(*(Mistake(str(self.path), line, _dotted(p.path), p.found, p.expected) for line, p in placed))

    def _line(self, path: KeyPath) -> int:
        """Return the line, from 1, of the key at a path, or of the nearest key above it that is in the file."""
        keys = tuple(str(step) for step in path)
        found = (self._lines[keys[:length]] for length in range(len(keys), 0, -1) if keys[:length] in self._lines)
        return next(found, self._root.start_mark.line + 1)


def _read(path: Path) -> str:
    try:
        content = read_small_file(path, MAX_BYTES)
    except FileError as error:
        raise _unreadable(path, 0, f"a file that {error.reason}") from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _unreadable(path, line, "bytes that are not UTF-8 text") from error


class _Constructor(yaml.SafeLoader):
    """Makes values of nodes; numbers have a limit."""

    def number(self, node: yaml.ScalarNode) -> object:
        """Return an integer or a float."""
        if len(node.value) > MOST_DIGITS:
            found = f"a number of {len(node.value):,} characters"
            raise yaml.constructor.ConstructorError(None, None, found, node.start_mark)
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _tag in ("int", "float"):
    _Constructor.add_constructor(f"tag:yaml.org,2002:{_tag}", _Constructor.number)


def _parse(path: Path, text: str) -> tuple[yaml.Node, Any]:
    """Return the tree of nodes and its value. Raises ConfigError."""
    try:
        root = yaml.compose(text, _Loader)
        if root is None:
            raise _unreadable(path, 1, "an empty file")
        return root, _Constructor("").construct_document(root)  # detects unhashable keys, invalid dates, recursion
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = _NAMED.sub(r"\1", error.problem or error.context or "")
        hint = f"; {SUBSTITUTES}" if "'!secret'" in (error.problem or "") else ""
        rows = [row[: mark.column + 1] for row in text.splitlines()[mark.line : mark.line + 1]] if mark else []
        if any(row.lstrip(" ").startswith("\t") for row in rows):
            hint = "; indent by spaces, not by a tab"
        line = min(mark.line, text.rstrip().count("\n")) + 1 if mark else 1  # the mark of an end is behind it
        raise _unreadable(path, line, f"invalid YAML ({reason}{hint})") from error
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        raise _unreadable(path, 1, f"invalid YAML ({str(error).splitlines()[0]})") from error
    except RecursionError as error:
        raise _unreadable(path, 1, "invalid YAML (nested too deeply)") from error
    except MemoryError as error:
        raise _unreadable(path, 1, "a file for which there is too little memory") from error


def _unreadable(path: Path, line: int, found: str) -> ConfigError:
    return ConfigError(Mistake(str(path), line, "", found, "a config file (YAML)"))


def _walked(root: yaml.Node) -> tuple[dict[tuple[str, ...], int], list[Problem]]:
    """Return the line of each key, and the mistakes that YAML parsers ignore: duplicate keys and NUL characters."""
    lines: dict[tuple[str, ...], int] = {}
    problems: list[Problem] = []
    seen: set[int] = set()
    todo: list[tuple[tuple[str, ...], yaml.Node]] = [((), root)]
    while todo:
        path, node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode) and "\0" in node.value:
            problems.append(Problem(path, "a NUL character", "text without one"))
        elif isinstance(node, yaml.SequenceNode):
            todo += [(path, item) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            problems += [Problem((*path, key), "a duplicate key", "it once") for key in keys if keys[key] > 1]
            for key, value in node.value:
                below = (*path, key.value) if isinstance(key, yaml.ScalarNode) else path
                lines[below] = key.start_mark.line + 1
                todo += [(below, key), (below, value)]
    return lines, problems


def _problem(record: type[BaseModel], detail: ErrorDetails) -> Problem:
    path = tuple(step for step in detail["loc"] if step != "[key]")
    if detail["type"] == "missing":
        return Problem(path, "nothing", expected(detail))
    if detail["type"] == "extra_forbidden" and (renamed := new_name(path)) is not None:
        return Problem(path, FORMER_NAME, renamed)
    if detail["type"] == "extra_forbidden":
        return Problem(path, "an unknown key", _known_keys(record, path))
    if detail["loc"][-1:] == ("[key]",):
        name = _shown(path, path[-1]).removeprefix("the text ")
        return Problem(path, f"the name {name}", expected(detail))
    return Problem(path, _shown(path, detail["input"]), expected(detail))


def _known_keys(section: type[BaseModel], path: KeyPath) -> str:
    """Return the known keys of the mapping with an unknown one, or the one that was probably meant."""
    steps = list(path[:-1])
    while steps:
        field = section.model_fields[str(steps.pop(0))]
        if (entries := entries_of(field)) is not None:
            section = entries[0]
            del steps[0]
        else:
            section = section_of(field) or optional_section_of(field) or section
    known = sorted(section.model_fields)
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    return f"`{close[0]}`" if close else f"one of {', '.join(known)}"


def _shown(path: KeyPath, value: object) -> str:
    """Return a short description of a value, without secrets."""
    if path and path[-1] in SECRETS:
        return "a number (not shown), not in quotes" if isinstance(value, int | float) else "a value (not shown)"
    if path and path[-1] == "source" and isinstance(value, str):
        return "an address (not shown)"
    return shown(without_addresses(value) if isinstance(value, str) else value)


def _dotted(path: KeyPath) -> str:
    """Return a key path as text; keys with unprintable characters are quoted."""
    steps = (without_addresses(str(step)) for step in path)
    return ".".join(step if step.isprintable() else ascii(step) for step in steps) or "the whole file"


def _one_line(text: str) -> str:
    """Return text with unprintable characters escaped, as a model's name may have some, and words shortened."""
    text = re.sub(r"\S{300,}", lambda found: f"{found[0][:100]}...", text)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _with(data: Any, path: Sequence[str], value: object) -> Any:
    """Return a copy of the data with a value at a path."""
    entries = data if isinstance(data, dict) else {}
    return {**entries, path[0]: value if len(path) == 1 else _with(entries.get(path[0]), path[1:], value)}


def _without(data: Any, path: KeyPath) -> Any:
    """Return a copy of the data without the entry at a path; unchanged if there is none."""
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {**data, path[0]: _without(data[path[0]], path[1:])}
