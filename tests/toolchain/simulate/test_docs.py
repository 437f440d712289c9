"""docs/simulator.md: its program runs, and its table has every format."""

import re
from pathlib import Path
from typing import Any

import pytest

from edgemeta.toolchain.number_formats.formats import PRESETS


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "simulator.md").read_text("utf-8")


@pytest.fixture
def programs(page: str) -> list[str]:
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def run(program: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(program, "docs/simulator.md", "exec"), names)
    return names


def test_the_call_takes_the_tutorials_network(page: str, programs: list[str]) -> None:
    script, (imported,) = programs[0], re.findall(r"^\+(from .*)", page, re.MULTILINE)
    network = script[script.index("model = ") : script.index("optimizer = ")]
    names = run(f"import torch\nfrom torch import nn\n{imported}\n{network}{programs[2]}", {})
    assert names["model"](names["torch"].randn(2, 1, 16, 16)).shape == (2, 2)


@pytest.mark.gate("6 s: the tutorial's training, twice")
def test_the_tutorial_runs(page: str, programs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain script, then with the two lines: both learn, and the second one has quantized layers to report."""
    monkeypatch.chdir(tmp_path)
    script, after = programs[:2]
    assert 25 <= len(script.strip().splitlines()) <= 40
    plain = run(script, {})
    (diff,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    changed = script
    lines = diff.splitlines()
    added = [number for number, line in enumerate(lines) if line.startswith("+")]
    assert len(added) == 2
    for number in added:
        before = lines[number - 1][1:]
        assert changed.count(f"\n{before}\n") == 1
        changed = changed.replace(f"\n{before}\n", f"\n{before}\n{lines[number][1:]}\n")
    simulated = run(changed + after, {})
    assert plain["accuracy"] > 0.9
    assert simulated["accuracy"] > 0.9
    assert not torch_equal(plain["model"], simulated["model"])


def torch_equal(one: Any, other: Any) -> bool:
    """Whether two networks have the same dense layer."""
    return bool((one[-1].bias == other[-1].bias).all())


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
