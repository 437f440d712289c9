"""Checks before a training: where the model is written, what a fresh start deletes, which data a run has."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.errors import EdgemetaError
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.train.run_folder import data_digest, opened_run


def test_a_fresh_start_deletes_the_run_and_nothing_else(tmp_path: Path) -> None:
    said: list[str] = []
    run = ["network.pt", "teacher-0.pt", "continuation-0.pt", "logits-abc-0-01.npy", "log.jsonl", "confusion.png"]
    others = ["notes.txt", "mine.safetensors", "picture.png", "mine.pt", "run.lock"]
    for name in (*run, *others, ".student.pt.a1b2c3"):
        (tmp_path / name).write_bytes(b"x")
    with opened_run(tmp_path, False, said.append):
        assert len(list(tmp_path.iterdir())) == 11  # the unfinished file of a killed run is gone
    with opened_run(tmp_path, True, said.append):
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(others)
    assert said == [f"{tmp_path}: deleted the run in it (6 files) to start afresh"]
    with opened_run(tmp_path / "new" / "run", True, said.append):
        assert (tmp_path / "new" / "run").is_dir()
    assert len(said) == 1


def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    """Both would write the same checkpoint, half of it each."""
    (tmp_path / "network.pt").write_bytes(b"x")
    with (
        opened_run(tmp_path, False, print),
        pytest.raises(CheckpointError, match="another training is running in it, expected a folder of its own"),
        opened_run(tmp_path, True, print),
    ):
        pass
    assert (tmp_path / "network.pt").exists()
    with opened_run(tmp_path, False, print):
        pass


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with (
            pytest.raises(EdgemetaError, match=r"run.lock: cannot be written \(.*\)"),
            opened_run(folder, False, print),
        ):
            pass


def test_the_digest_tells_data_apart() -> None:
    x, y = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])
    sets = [
        (Dataset(x, y, ("a", "b")),),
        (Dataset(x + 1, y, ("a", "b")),),
        (Dataset(x, 1 - y, ("a", "b")),),
        (Dataset(x, y, ("a", "c")),),
        (Dataset(x.reshape(4, 4, 16, 3), y, ("a", "b")),),
        (Dataset(x, y, ("a", "b")), Alternates(x[:1], np.array([0]))),
        (Dataset(x, y, ("a", "b")), Alternates(x[:1], np.array([1]))),
        (Dataset(x[:2], y[:2], ("a", "b")), Dataset(x[2:], y[2:], ("a", "b"))),
    ]
    assert len({data_digest(*parts) for parts in sets}) == len(sets)
    assert data_digest(Dataset(x, y, ("a", "b"))) == data_digest(Dataset(x, y.astype(np.uint8), ("a", "b")))
