"""What is packaged is locked: every dependency within its range, every file with its digest."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")

LOCKS = {"requirements.txt": ("", "signature"), "build-requirements.txt": ("package",)}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_version_within_each_range(repository: Path, name: str) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    locked: dict[str, list[str]] = {}
    for line in (repository / "packaging" / name).read_text().splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)", line):
            locked.setdefault(found[1], []).append(found[2])
    for text in (text for group in LOCKS[name] for text in groups[group]):
        wanted = Requirement(text)
        versions = locked.get(wanted.name.lower(), [])
        assert versions, f"{name} lacks {wanted.name}: make lock"
        assert [each for each in versions if each not in wanted.specifier] == [], f"{name}: {text}: make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_of_a_lock_has_a_digest(repository: Path, name: str) -> None:
    entries = re.split(r"\n(?=\S)", (repository / "packaging" / name).read_text().strip())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
