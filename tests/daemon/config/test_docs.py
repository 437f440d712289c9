"""Every key of the config, and nothing else, has a row in docs/configuration.md with its default and its meaning."""

import re
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile


def keys(section: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Dotted key to its field, through sections and mappings of sections.

    A section that may be null has one key: what is below it is below the section of the same name at the top.
    """
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= keys(kind, f"{prefix}{name}.")
            continue
        arguments = getattr(kind, "__args__", ())
        entries = [
            kind
            for kind in arguments
            if isinstance(kind, type) and issubclass(kind, BaseModel) and NoneType not in arguments
        ]
        found[f"{prefix}{name}"] = field
        for entry in entries:
            found |= keys(entry, f"{prefix}{name}.<name>.")
    return found


def test_there_are_no_rows_of_keys_that_do_not_exist(repository: Path) -> None:
    text = (repository / "docs" / "configuration.md").read_text()
    section = text.partition("\n## Keys\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(keys(Config))


@pytest.mark.parametrize("key", sorted(keys(Config)))
def test_every_key_has_a_row_with_its_default_and_meaning(repository: Path, key: str) -> None:
    field = keys(Config)[key]
    text = (repository / "docs" / "configuration.md").read_text()
    row = next((line for line in text.splitlines() if line.startswith(f"| `{key}` |")), None)
    assert row is not None, f"docs/configuration.md has no row for {key}"
    assert field.description in row
    default = row.split("|")[2].strip()
    if field.default is PydanticUndefined:
        assert default in {"needed", "host name"}
    else:
        plain = {None: "`null`", True: "`true`", False: "`false`"}
        value = field.default
        expected = plain[value] if value is None or isinstance(value, bool) else f"`{value}`"
        assert default == expected


def test_the_shipped_configs_are_valid(repository: Path) -> None:
    shipped = sorted((repository / "configs").glob("*.yaml"))
    assert shipped
    for path in shipped:
        assert ConfigFile(path).validate()[1] == [], path
