"""One, two and four data-parallel workers on one batch: their quantizers make the same decisions."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.waiting import free_port

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

WORKER = Path(__file__).with_name("worker.py")


def results(folder: Path, workers: int) -> list[Any]:
    folder.mkdir()
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder)],
            env=os.environ | meeting | {"RANK": str(rank), "WORLD_SIZE": str(workers)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(workers)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    return [torch.load(folder / f"{workers}-{rank}.pt", weights_only=True) for rank in range(workers)]


@pytest.mark.gate("15 s: seven processes that import PyTorch")
def test_workers_decide_as_one(tmp_path: Path) -> None:
    """Stochastic rounding, observed ranges and shared exponents; the loss of W workers is W times as great."""
    ((whole, gradients),) = results(tmp_path / "one", 1)
    assert {key.split("/")[1] for key in whole} == {"activation", "weight", "gradient"}
    for workers in (2, 4):
        parts = results(tmp_path / str(workers), workers)
        for key, tensors in whole.items():
            for number, tensor in enumerate(tensors):
                factor = 1 / workers if key.endswith("gradient") else 1
                for rank, (part, _) in enumerate(parts):
                    expected = tensor if key.endswith("weight") else tensor[rank::workers]
                    assert torch.equal(part[key][number] * factor, expected), (workers, rank, key)
        for name, gradient in parts[0][1].items():
            torch.testing.assert_close(gradient, gradients[name], rtol=1e-5, atol=1e-7)
