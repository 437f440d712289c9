"""The drawn gate: the same picture for the same number, and both states differ in any light."""

from pathlib import Path

import cv2
import numpy as np

from rig.gate_camera import STATES, GateCamera, draw
from rig.waiting import wait_until


def test_a_picture_is_the_same_each_time_and_no_two_are_alike() -> None:
    closed, opened = STATES
    assert np.array_equal(draw(closed, 3), draw(closed, 3))
    assert not np.array_equal(draw(closed, 3), draw(closed, 4))
    assert not np.array_equal(draw(closed, 3), draw(closed, 3, seed=1))
    for number in range(0, 60, 7):
        assert np.abs(draw(closed, number).astype(int) - draw(opened, number)).mean() > 3


def test_the_file_is_a_whole_picture_at_any_time(tmp_path: Path) -> None:
    camera = GateCamera(tmp_path / "gate.png")
    camera.start()
    try:
        first = camera.path.read_bytes()
        wait_until(lambda: camera.path.read_bytes() != first, "the next picture")
        for _ in range(50):
            assert cv2.imread(str(camera.path)) is not None
    finally:
        camera.stop()
