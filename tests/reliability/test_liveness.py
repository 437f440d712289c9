"""reliability/liveness.py in its short form: one clip freezes, and lives through a minute of night."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest


@pytest.mark.gate("40 s: the short form of an acceptance program")
def test_faults_are_named_and_nights_are_not(repository: Path, tmp_path: Path) -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed (Debian package ffmpeg)")
    folder = tmp_path / "video"
    folder.mkdir()
    writer = cv2.VideoWriter(str(folder / "walk.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (640, 384))
    ground = cv2.GaussianBlur(np.random.default_rng(1).integers(0, 255, (384, 640, 3), np.uint8), (17, 17), 6)
    for number in range(160):
        picture = ground.copy()
        picture[160:240, 4 * number % 600 : 4 * number % 600 + 40] = 220
        writer.write(picture)
    writer.release()
    program = [sys.executable, repository / "reliability" / "liveness.py", "--data", tmp_path, "--minutes", "2"]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, cwd=repository)
    assert ended.returncode == 0, ended.stderr
    measured = json.loads(ended.stdout)
    assert len(measured["faults"]) >= 15
    assert all(fault["stays"] and fault["after_s"] < measured["promised_s"] for fault in measured["faults"].values())
    assert measured["false_alarms"] == {}
