"""Workers: shares, sums and orders of two real processes; what one is told when it loses the other."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from edgemeta.toolchain.train.workers import ALONE, Workers, workers_of_environment
from rig.waiting import free_port

PROGRAM = """
import sys
import numpy as np
import torch
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.train.workers import joined_workers
with joined_workers() as workers:
    assert workers.total(workers.rank + 1.5) == 4.0
    rows = torch.arange(6.0).reshape(6, 1)
    mine = rows[workers.share(np.arange(6))]
    assert torch.equal(workers.in_batch_order(mine), rows)
    for content in (None, b"", b"some bytes"):
        assert workers.from_first(lambda: content if workers.first else b"not mine") == content
    workers.require_same("config", "equal")
    try:
        workers.require_same("config", f"digest {workers.rank}")
        assert workers.first
    except CheckpointError as error:
        print(error)
    if not workers.first:
        sys.exit(3)
    workers.total(1.0)
"""


def test_alone() -> None:
    """Nothing is exchanged."""
    index, rows = np.arange(5), torch.arange(3.0)
    assert (ALONE.share(index) == index).all()
    assert (ALONE.total(2.5), ALONE.from_first(lambda: b"x"), ALONE.first) == (2.5, b"x", True)
    assert ALONE.in_batch_order(rows) is rows
    ALONE.require_same("config", "any")


def test_rows_are_dealt_in_turns() -> None:
    assert [Workers(rank, 3).share(np.arange(7)).tolist() for rank in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [Workers(rank, 3).first for rank in range(3)] == [True, False, False]


def test_what_torchrun_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert workers_of_environment() == ALONE
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert workers_of_environment() == Workers(2, 4)


@pytest.mark.gate("10 s: two processes that import PyTorch")
def test_two_processes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "program.py")],
            env={**meeting, "RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    (_, lost), (reported, errors) = (process.communicate(timeout=200) for process in processes)
    assert processes[1].returncode == 3, errors
    assert reported.strip() == (
        "worker 1 has another config (digest digest 1), expected that of the first worker (digest 0)"
    )
    last = lost.strip().splitlines()[-1]
    assert "CheckpointError: worker 0 has lost the others (Connection" in last
    assert last.endswith("); the same command continues after the last complete epoch")
