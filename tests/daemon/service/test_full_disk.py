"""reliability/full_disk.py in a short form: the service and a real broker on a disk that is full, and really so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rig.disk import MountError, SmallDisk


@pytest.mark.gate("40 s: an acceptance program in its short form")
@pytest.mark.usefixtures("make_broker")  # skips where mosquitto is missing
def test_a_full_disk_loses_nothing_and_logs_little(repository: Path, tmp_path: Path) -> None:
    try:
        SmallDisk(tmp_path).close()
    except MountError as error:
        pytest.skip(f"no file system can be mounted (root in a container that allows it): {error}")
    command = [sys.executable, str(repository / "reliability" / "full_disk.py"), "--minutes", "0.3"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"[-6000:]
    outcome = json.loads(ended.stdout)
    assert outcome["in_the_file_at_restarts"] > 0
    assert "memory" in outcome["places"]
    assert outcome["places"][-1] == "disk"
    assert outcome["stuck"] == 0
    assert set(outcome["lost"].values()) == {0}
    assert 0 < outcome["log_lines_of_the_outbox"] <= 12
