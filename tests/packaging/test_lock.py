"""What is packaged is locked: every dependency within its range, every file with its digest."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

LOCKS = {"requirements.txt": {"", "signature"}, "build-requirements.txt": {"package"}}
"""Extras that a lock holds; "" is what everybody needs."""


def ranges(extras: set[str]) -> list[Requirement]:
    """The requirements of some extras, by the metadata of this installation."""
    found = []
    for each in map(Requirement, requires("edgemeta") or ()):
        extra = re.search(r"extra == ['\"](\w+)['\"]", str(each.marker or ""))
        if (extra[1] if extra else "") in extras:
            found.append(each)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_version_within_each_range(repository: Path, name: str) -> None:
    locked: dict[str, list[str]] = {}
    for line in (repository / "packaging" / name).read_text().splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)", line):
            locked.setdefault(found[1], []).append(found[2])
    wanted = ranges(LOCKS[name])
    assert len(wanted) > 3
    for each in wanted:
        versions = locked.get(each.name.lower(), [])
        assert versions, f"{name} lacks {each.name}: make lock"
        assert [version for version in versions if version not in each.specifier] == [], f"{name}: {each}: make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_of_a_lock_has_a_digest(repository: Path, name: str) -> None:
    entries = re.split(r"\n(?=\S)", (repository / "packaging" / name).read_text().strip())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
