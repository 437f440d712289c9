"""The outage suite of reliability/outages.py: its short form and its full form."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def outages(repository: Path, *arguments: str, timeout: float) -> dict[str, Any]:
    command = [sys.executable, str(repository / "reliability" / "outages.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert ended.returncode == 0, ended.stderr
    outcome = json.loads(ended.stdout)
    assert isinstance(outcome, dict)
    return outcome


def assert_nothing_lost(outcome: dict[str, Any]) -> None:
    assert outcome["lost"] == {"frames": 0, "states": 0, "from_the_outbox": 0, "at_the_end": 0}
    assert outcome["contradictions"] == 0
    assert outcome["exit_code"] == 0
    assert outcome["frames"] > 50
    assert outcome["historical"] > 0


@pytest.mark.gate("10 s: an acceptance program in its short form")
@pytest.mark.usefixtures("mosquitto")
def test_a_few_outages_and_kills_lose_nothing(repository: Path) -> None:
    outcome = outages(repository, "--outages", "3", "--kills", "2", timeout=200)
    assert set(outcome["outages"]) == {"broker killed", "network cut", "broker empty"}
    assert set(outcome["kills_of_the_service"]) == {"connected", "without a broker"}
    assert_nothing_lost(outcome)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("mosquitto")
def test_a_hundred_outages_and_twenty_kills_lose_nothing(repository: Path) -> None:
    assert_nothing_lost(outages(repository, "--outages", "100", "--kills", "20", timeout=3600))
