"""Rate limit, region of interest and motion gate, each against its definition."""

import json
import math
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.frame_filter import GRID, FrameFilter, MotionGate
from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.config.camera import CameraConfig, MotionConfig

SECOND = 10**9
PICTURE = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)


def filter_with(**keys: object) -> FrameFilter:
    return FrameFilter(CameraConfig.model_validate({"source": "x", **keys}))


def test_without_keys_every_frame_passes_unchanged() -> None:
    passing = filter_with()
    for number in range(10):
        frame = Frame(PICTURE, number)
        assert passing.apply(frame) is frame


@given(camera=st.floats(1, 200), cap=st.floats(0.5, 200))
def test_the_average_rate_is_the_limit_or_the_cameras(camera: float, cap: float) -> None:
    passing = filter_with(max_fps=cap)
    count = 2000
    passed = sum(
        passing.apply(Frame(PICTURE, 5 * SECOND + round(n * SECOND / camera))) is not None for n in range(count)
    )
    assert passed <= math.ceil(count * min(1.0, cap / camera)) + 1
    assert passed >= math.floor(count * min(1.0, cap / camera)) - 1


def test_no_burst_after_a_pause() -> None:
    passing = filter_with(max_fps=10)
    assert passing.apply(Frame(PICTURE, SECOND)) is not None
    passed = [passing.apply(Frame(PICTURE, 60 * SECOND + n * SECOND // 100)) is not None for n in range(100)]
    assert sum(passed) == 11


def test_a_region_is_a_copy_of_its_pixels() -> None:
    chosen = filter_with(region={"left": 0.5, "top": 0.25, "width": 0.25, "height": 0.5}).apply(Frame(PICTURE, 7))
    assert chosen is not None
    np.testing.assert_array_equal(chosen.pixels, PICTURE[12:36, 32:48])
    assert chosen.pixels.flags.c_contiguous
    assert chosen.captured_ns == 7


def passes(gate: MotionGate, pixels: Pixels, seconds: float) -> bool:
    return gate.passes(Frame(pixels, round(seconds * SECOND)))


def moved(share: float, level: int) -> Pixels:
    """The gray picture with so great a share of the grid's pixels changed by `level` in one colour."""
    pixels = np.full((80, 160, 3), 100, np.uint8)
    grid = pixels[::GRID, ::GRID].reshape(-1, 3)
    grid[: round(share * len(grid)), 1] += level
    pixels[::GRID, ::GRID] = grid.reshape(10, 20, 3)
    return pixels


@pytest.mark.parametrize(
    ("share", "level", "opened"),
    [(0.1, 31, True), (0.09, 31, False), (1.0, 30, False), (1.0, 31, True), (0.0, 0, False)],
)
def test_enough_pixels_must_change_enough(share: float, level: int, opened: bool) -> None:
    gate = MotionGate(MotionConfig(threshold=30, min_area=0.1, max_interval=100))
    assert passes(gate, moved(0, 0), 1)
    assert passes(gate, moved(share, level), 2) == opened


def test_a_slow_change_adds_up() -> None:
    gate = MotionGate(MotionConfig(threshold=30, min_area=0.1, max_interval=1000))
    brightness = [passes(gate, np.full((16, 16, 3), level, np.uint8), level) for level in range(1, 100)]
    assert [level for level, passed in enumerate(brightness, 1) if passed] == [1, 32, 63, 94]


def test_a_frame_passes_without_motion_after_max_interval() -> None:
    gate = MotionGate(MotionConfig(max_interval=10))
    assert [second for second in range(30) if passes(gate, PICTURE, second + 1)] == [0, 10, 20]


def test_another_size_passes_and_is_no_motion() -> None:
    gate = MotionGate(MotionConfig())
    assert passes(gate, PICTURE, 1)
    assert not passes(gate, PICTURE, 2)
    assert passes(gate, PICTURE[:, :32], 3)
    assert not gate.motion


def test_changes_in_ignored_parts_are_no_motion_and_those_beside_count_by_what_is_left() -> None:
    """Of 20 grid columns the left 10 are ignored: a change of 1 in 10 of the others is 1/10 of what counts."""
    left = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
    gate = MotionGate(MotionConfig(threshold=30, min_area=0.1, max_interval=100, ignore=[left]))
    still, changed_left, changed_right = (np.full((80, 160, 3), 100, np.uint8) for _ in range(3))
    changed_left[:, :80] = 200
    changed_right[:8, 88:] = 200
    assert passes(gate, still, 1)
    assert not passes(gate, changed_left, 2)
    assert passes(gate, changed_right, 3)


def test_a_gate_that_ignores_everything_sees_no_motion() -> None:
    whole = [[0, 0], [1, 0], [1, 1], [0, 1]]
    gate = MotionGate(MotionConfig(max_interval=1000, ignore=[whole]))
    assert [passes(gate, np.full((80, 160, 3), level, np.uint8), level + 1) for level in (0, 250)] == [True, False]
    assert not gate.motion


def test_motion_lasts_off_after_seconds_beyond_the_last_change() -> None:
    passing = filter_with(motion={"publish": True, "off_after": 2, "max_interval": 100})
    pictures = {3: 200, 4: 90}
    said = []
    for second in range(1, 9):
        frame = Frame(np.full((16, 16, 3), pictures.get(second, 90), np.uint8), second * SECOND)
        assert passing.apply(frame) is frame  # without `enabled` every frame is classified
        said.append(passing.motion)
    assert said == [False, False, True, True, True, False, False, False]
    assert filter_with(motion={"enabled": True}).motion is None


def test_motion_is_published_when_it_begins_and_ends(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, colours: Path
) -> None:
    """A clip of three colours, then the last one for long: motion, retained, and its end."""
    for number in range(3, 40):
        (colours / f"{number:02}.png").write_bytes((colours / "2.png").read_bytes())
    keys = {"source": str(colours), "fps": 20, "motion": {"publish": True, "off_after": 0.3}}
    run_daemon(write_config(cameras={"front": keys}, mqtt={"host": "127.0.0.1", "port": broker.port}))
    said = [message.json for message in subscriber.wait("front/motion", 3)]
    assert [each["motion"] for each in said] == [False, True, False]
    schema = json.loads((Path(__file__).parents[3] / "docs" / "schema" / "motion.schema.json").read_text())
    for each in said:
        jsonschema.validate(each, schema, format_checker=jsonschema.FormatChecker())
    began, ended = (datetime.fromisoformat(each["since"].replace("Z", "+00:00")) for each in said[1:])
    assert 0.25 < (ended - began).total_seconds() < 5


def test_a_region_with_a_motion_gate_in_the_service(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """Left red, right blue: the right half is classified; a still picture twice a second instead of 20 times."""
    picture = np.full((48, 64, 3), (0, 0, 255), np.uint8)
    picture[:, 32:] = (255, 0, 0)
    cv2.imwrite(str(tmp_path / "halves.png"), picture)
    front = {"source": str(tmp_path / "halves.png"), "loop": True, "fps": 20}
    gate = {"region": {"left": 0.5, "width": 0.5}, "motion": {"enabled": True, "max_interval": 0.5}}
    run_daemon(write_config(cameras={"front": front | gate}, mqtt={"host": "127.0.0.1", "port": broker.port}))
    frames = [message.json for message in subscriber.wait("front/frame", 4)]
    assert {frame["labels"][0]["label"] for frame in frames} == {"blue"}
    assert [frame["sequence"] for frame in frames] == [1, 2, 3, 4]
    moments = [datetime.fromisoformat(frame["captured"].replace("Z", "+00:00")) for frame in frames]
    assert min((later - earlier).total_seconds() for earlier, later in pairwise(moments)) >= 0.49
