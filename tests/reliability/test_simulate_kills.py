"""A worker of a simulated training is killed, and the run resumed: the program's own check, once."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from reliability.simulate_kills import killed


@pytest.mark.gate("15 s: three runs of two workers")
def test_a_killed_and_resumed_run_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    (kill,) = killed(tmp_path, 1, 3, (2,))
    assert kill.same_weights
    assert kill.whole_log
