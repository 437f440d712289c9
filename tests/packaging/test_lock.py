"""What is packaged is locked: every dependency within its range, every file with its digest."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

LOCKS = {"requirements.txt": {"", "signature"}, "build-requirements.txt": {"package"}}
"""Extras that a lock holds; "" is what everybody needs."""


def ranges(repository: Path, extras: set[str]) -> list[Requirement]:
    """The requirements of some extras."""
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return [Requirement(each) for extra in sorted(extras) for each in groups[extra]]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="its standard library reads no TOML")
@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_version_within_each_range(repository: Path, name: str) -> None:
    locked: dict[str, list[str]] = {}
    for line in (repository / "packaging" / name).read_text().splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)", line):
            locked.setdefault(found[1], []).append(found[2])
    wanted = ranges(repository, LOCKS[name])
    assert len(wanted) > 3
    for each in wanted:
        versions = locked.get(each.name.lower(), [])
        assert versions, f"{name} lacks {each.name}: make lock"
        assert [version for version in versions if version not in each.specifier] == [], f"{name}: {each}: make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_of_a_lock_has_a_digest(repository: Path, name: str) -> None:
    entries = re.split(r"\n(?=\S)", (repository / "packaging" / name).read_text().strip())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
