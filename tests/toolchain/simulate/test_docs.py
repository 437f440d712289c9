"""docs/simulator.md: its program runs, and its table has every format."""

import re
from pathlib import Path

import pytest

from edgemeta.toolchain.simulate.formats import PRESETS


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "simulator.md").read_text("utf-8")


def test_the_program_runs(page: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(program, "docs/simulator.md", "exec"), names)
    assert float(names["loss"].detach()) > 0  # type: ignore[attr-defined]


def test_the_table_has_every_format(page: str) -> None:
    table = page[page.index("| name | values |") : page.index("NaN stays NaN")]
    first = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    named: set[str] = set()
    for word in re.findall(r"`([^`]+)`", first):
        named.add(word if not word.startswith("…") else _completed(word, named))
    assert named == set(PRESETS)


def _completed(word: str, named: set[str]) -> str:
    """The name that an ending after … stands for."""
    (found,) = {name for name in PRESETS if name.endswith(word[1:]) and name not in named}
    return found
