"""The fault suite of reliability/soak.py in its short form, against real parts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rig.camera import NEEDS, RtspCamera

SLACK = 30
"""Factor on the promised times for a machine that runs other tests; the suite itself is measured with 1."""


@pytest.mark.gate("60 s: an acceptance program in its short form")
@pytest.mark.usefixtures("mosquitto")
def test_faults_of_every_part_lose_nothing(repository: Path) -> None:
    if not RtspCamera.installed():
        pytest.skip(f"no RTSP server (Debian packages {NEEDS})")
    command = [sys.executable, str(repository / "reliability" / "soak.py")]
    options = ["--minutes", "0.9", "--seed", "1", "--slack", str(SLACK)]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr[-6000:]
    outcome = json.loads(ended.stdout)
    assert outcome["faults_played"] >= 3
    assert outcome["frames"] > 300
    assert set(outcome["lost"].values()) == {0}
    assert outcome["late"] == []
    assert outcome["quiet_points"] >= 3
