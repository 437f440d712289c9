"""Checkpoints: whole or not at all, and never another recipe's."""

from pathlib import Path

import pytest
import torch

from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.train.checkpoint import RunIdentity, load_checkpoint, save_checkpoint

ONE = RunIdentity("recipe", "data")


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "run" / "a.pt"
    assert load_checkpoint(path, ONE) is None
    save_checkpoint(path, ONE, {"epoch": 3, "x": torch.arange(3)})
    state = load_checkpoint(path, ONE)
    assert state is not None
    assert state["epoch"] == 3
    assert state["x"].tolist() == [0, 1, 2]
    assert [p.name for p in path.parent.iterdir()] == ["a.pt"]


def test_other_recipe_and_other_data(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_checkpoint(path, ONE, {})
    with pytest.raises(
        CheckpointError,
        match=r"made with another recipe or seed \(digest recipe\), expected two; use another",
    ):
        load_checkpoint(path, RunIdentity("two", "data"))
    with pytest.raises(CheckpointError, match=r"other training data \(digest data\), expected mine; .* with --fresh"):
        load_checkpoint(path, RunIdentity("recipe", "mine"))
    torch.save({"digest": "recipe"}, path)  # as older versions wrote it
    with pytest.raises(CheckpointError, match=r"other training data \(digest none\), expected data"):
        load_checkpoint(path, ONE)


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_checkpoint(path, ONE, {"x": torch.zeros(1000)})
    raw = path.read_bytes()
    for damaged in (b"", b"hello", raw[:100], raw[: len(raw) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="not a readable checkpoint"):
            load_checkpoint(path, ONE)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="expected a digest in it"):
        load_checkpoint(path, ONE)
