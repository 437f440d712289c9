"""The size report: what counts as a line, and as a switch on types of operators."""

import subprocess
from pathlib import Path

import pytest

from tools import size


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(layer, Conv | Dense)",
        "isinstance(layer, (Add, layers.Conv))",
        "match layer:\n    case Conv(name=name) | Dense(name=name):\n        pass",
        "type(layer) is MaxPool",
        "KERNELS = {Conv: 1}",
    ],
)
def test_a_switch(text: str) -> None:
    assert size.switches(text)


@pytest.mark.parametrize(
    "text", ["Conv(name)", "def f(layer: Conv) -> Dense: ...", "isinstance(layer, str)", "{1: Conv}"]
)
def test_no_switch(text: str) -> None:
    assert not size.switches(text)


def test_lines_of_tracked_texts_against_main(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for folder in size.FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("1\n2\n")
    (tmp_path / "cli" / "model.bin").write_bytes(b"\0\n\n")
    (tmp_path / "README.md").write_text("not counted\n")
    git("add", ".")
    git("commit", "--message", "a")
    (tmp_path / "cli" / "a.py").write_text("isinstance(x, Conv)\n" * 5)
    (tmp_path / "model" / "a.py").unlink()
    (tmp_path / "model" / "new.py").write_text("not tracked\n")
    assert size.sizes(tmp_path) == {**dict.fromkeys(size.FOLDERS, 2), "cli": 5, "model": 0}
    before = size.sizes_of_main(tmp_path)
    assert before == dict.fromkeys(size.FOLDERS, 2)
    assert list(size.switching(tmp_path)) == ["cli/a.py"]
    printed = list(size.report(size.sizes(tmp_path), before, ["cli/a.py"]))
    assert printed[6].split() == ["cli", "5", "+3"]
    assert printed[7].split() == ["product", "15", "+1"]


def test_words_of_documents_but_of_decisions_and_notebook(tmp_path: Path) -> None:
    for name in ("README.md", "docs/a.md", "docs/schema/a.md", "docs/decisions/0001-a.md", "docs/notebook/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# Two words\n")
    assert size.words(tmp_path) == 9
