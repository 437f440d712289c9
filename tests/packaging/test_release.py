"""What a release refuses, and what it says of its files; building one takes minutes: `make release REHEARSE=1`."""

import hashlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def release(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "packaging"))
    import release

    return release


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit: version 1.2.3, not in the change log."""
    (tmp_path / "src/edgemeta").mkdir(parents=True)
    (tmp_path / "src/edgemeta/__init__.py").write_text('__version__ = "1.2.3"\n')
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    commit(tmp_path, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n")
    return tmp_path


def commit(folder: Path, name: str, content: str) -> None:
    """Write a file, and commit everything."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid"]
    for words in (["add", "."], [*who, "commit", "--quiet", "--message", name]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def files(folder: Path, **contents: str) -> dict[str, Path]:
    folder.mkdir()
    for name, text in contents.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in contents}


def test_a_changed_checkout_is_refused(release: ModuleType, checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("another\n")
    with pytest.raises(release.ReleaseError, match=r"CHANGELOG.md is not committed, expected a clean checkout"):
        release.check_source(checkout, "1.2.3", rehearse=True)


def test_a_version_without_a_section_is_only_rehearsed(release: ModuleType, checkout: Path) -> None:
    assert release.version_of(checkout) == "1.2.3"
    with pytest.raises(release.ReleaseError, match=r"no section '## 1.2.3'"):
        release.check_source(checkout, "1.2.3", rehearse=False)
    assert len(release.check_source(checkout, "1.2.3", rehearse=True)) == 40


def test_a_version_whose_promise_is_not_written_is_only_rehearsed(release: ModuleType, checkout: Path) -> None:
    commit(checkout, "CHANGELOG.md", "# Changelog\n\n## 1.2.3\n")
    commit(checkout, "docs/stable.json", '{\n "version": "1.2.2"\n}\n')
    with pytest.raises(release.ReleaseError, match=r"docs/stable.json: not of 1\.2\.3, expected"):
        release.check_source(checkout, "1.2.3", rehearse=False)
    commit(checkout, "docs/stable.json", '{\n "version": "1.2.3"\n}\n')
    assert len(release.check_source(checkout, "1.2.3", rehearse=False)) == 40


def test_builds_that_differ_end_it(release: ModuleType, tmp_path: Path) -> None:
    first = files(tmp_path / "first", wheel="a", source="b")
    assert release.compared(first, first)["wheel"] == hashlib.sha256(b"a").hexdigest()
    with pytest.raises(release.ReleaseError, match=r"^wheel: differs between two builds"):
        release.compared(first, files(tmp_path / "second", wheel="c", source="b"))
    with pytest.raises(release.ReleaseError, match=r"^source: differs"):
        release.compared(first, files(tmp_path / "third", wheel="a"))


def test_the_provenance_names_commit_files_and_locks(release: ModuleType) -> None:
    statement = release.provenance("c0ffee", {"wheel": "00ff"}, Path(sys.executable).parent)
    assert statement["subject"] == [{"name": "wheel", "digest": {"sha256": "00ff"}}]
    definition = statement["predicate"]["buildDefinition"]
    named = {each["name"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert named["source"] == {"gitCommit": "c0ffee"}
    assert set(named) == {"source", "packaging/requirements.txt", "packaging/build-requirements.txt"}
    assert definition["internalParameters"]["python"].startswith("Python 3")
