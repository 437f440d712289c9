"""The outage suite of benchmarks/outages.py: its short form, its full form, and whether it would notice a loss."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def outages(repository: Path, *arguments: str, timeout: float) -> dict[str, Any]:
    command = [sys.executable, str(repository / "benchmarks" / "outages.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert ended.returncode == 0, ended.stderr
    outcome = json.loads(ended.stdout)
    assert isinstance(outcome, dict)
    return outcome


def assert_nothing_lost(outcome: dict[str, Any]) -> None:
    assert outcome["lost"] == {"frames": 0, "states": 0, "from_the_outbox": 0, "at_the_end": 0}
    assert outcome["exit_code"] == 0
    assert outcome["frames"] > 50
    assert outcome["historical"] > 0


@pytest.mark.usefixtures("make_broker")  # skips where mosquitto is missing
def test_a_few_outages_and_kills_lose_nothing(repository: Path) -> None:
    outcome = outages(repository, "--outages", "3", "--kills", "2", timeout=200)
    assert set(outcome["outages"]) == {"broker killed", "network cut", "broker empty"}
    assert set(outcome["kills_of_the_service"]) == {"connected", "without a broker"}
    assert_nothing_lost(outcome)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("make_broker")
def test_a_hundred_outages_and_twenty_kills_lose_nothing(repository: Path) -> None:
    assert_nothing_lost(outages(repository, "--outages", "100", "--kills", "20", timeout=3600))


@pytest.fixture
def suite(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    import outages as module  # type: ignore[import-not-found]

    assert isinstance(module, ModuleType)
    return module


def test_a_loss_would_be_noticed(suite: ModuleType) -> None:
    """Planted: one frame, one state, one drop too many."""

    def frame(number: int, superseded: int = 0) -> dict[str, Any]:
        return {"state": f"state {number // 3}", "dropped": {"superseded": superseded, "outbox": 0}}

    frames = {number: frame(number) for number in range(1, 10)}
    states = {1, 3, 6, 9}
    whole = suite.judge(frames, states, killed=False)
    assert (whole.frames, whole.lost_frames, whole.lost_states) == (9, 0, 0)
    without_frame = {number: one for number, one in frames.items() if number != 5}
    assert suite.judge(without_frame, states, killed=False).lost_frames == 1
    assert suite.judge(frames, states - {3}, killed=True).lost_states == 1
    assert suite.judge(frames, states - {9}, killed=True).lost_states == 0
    assert suite.judge(frames, states - {9}, killed=False).lost_states == 1
    accounted = without_frame | {9: frame(9, superseded=1)}
    assert suite.judge(accounted, states, killed=False).lost_frames == 0
    assert suite.judge(frames | {9: frame(9, superseded=1)}, states, killed=False).lost_frames == 1
