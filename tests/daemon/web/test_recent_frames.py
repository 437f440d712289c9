"""Recent frames of each camera: the newest frame, two minutes of points, the rate; memory is bounded."""

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.web.recent_frames import POINT_EVERY_NS, POINTS, TIMES, RecentFrames
from tests.daemon.web.conftest import Labels

PIXELS = np.zeros((4, 4, 3), np.uint8)


def add(seen: RecentFrames, at_ns: int, camera: str = "a", label: str = "cat", number: int = 1) -> CapturedFrame:
    captured = CapturedFrame(camera, number, Frame(PIXELS, at_ns), 0)
    step: Any = Labels(label, 0.5, None)
    seen.add(captured, step)
    return captured


def test_nothing_before_the_first_frame() -> None:
    seen = RecentFrames(["a"], keep_pixels=True)
    assert seen.newest("a") is None
    assert seen.points("a", 0) == []
    assert seen.rate("a", NS) == 0.0


def test_the_newest_frame_is_kept_without_a_copy_and_the_previous_one_released() -> None:
    seen = RecentFrames(["a", "b"], keep_pixels=True)
    add(seen, 1)
    captured = add(seen, 2)
    sight = seen.newest("a")
    assert sight is not None
    assert sight.pixels is captured.frame.pixels
    assert sight.captured_ns == 2
    assert seen.newest("b") is None


def test_if_frames_are_not_shown_no_pixels_are_kept() -> None:
    seen = RecentFrames(["a"], keep_pixels=False)
    add(seen, 1)
    sight = seen.newest("a")
    assert sight is not None
    assert sight.pixels is None


@given(st.lists(st.integers(1, NS), max_size=200))
def test_points_are_at_least_a_quarter_of_a_second_apart(steps: list[int]) -> None:
    seen, now = RecentFrames(["a"], keep_pixels=True), 0
    for step in steps:
        now += step
        add(seen, now)
    points = seen.points("a", 0)
    gaps = [later.captured_ns - earlier.captured_ns for earlier, later in pairwise(points)]
    assert all(gap >= POINT_EVERY_NS for gap in gaps)
    assert len(points) == 0 or now - points[-1].captured_ns < POINT_EVERY_NS


def test_memory_is_bounded() -> None:
    seen = RecentFrames(["a"], keep_pixels=True)
    for number in range(2 * POINTS + TIMES):
        add(seen, number * POINT_EVERY_NS, label=str(number))
    points = seen.points("a", 0)
    assert len(points) == POINTS
    assert points[-1].label == str(2 * POINTS + TIMES - 1)
    assert len(seen._histories["a"].times) == TIMES


def test_reading_after_the_last_number_gives_every_point_once() -> None:
    """A frame of b, captured before one of a, is classified after it."""
    seen = RecentFrames(["a", "b"], keep_pixels=True)
    add(seen, 5 * NS, "a")
    cursor = seen.points("a", 0)[-1].number
    add(seen, 4 * NS, "b")
    assert [point.captured_ns for point in seen.points("b", cursor)] == [4 * NS]
    assert seen.points("a", cursor) == []


@pytest.mark.parametrize("rate", [0.5, 1, 10, 30, 1000])
def test_the_rate_of_a_steady_camera(rate: float) -> None:
    seen = RecentFrames(["a"], keep_pixels=True)
    for number in range(2000):
        add(seen, round(number * NS / rate))
    newest = round(1999 * NS / rate)
    assert seen.rate("a", newest) == pytest.approx(rate, rel=1e-6)
    assert seen.rate("a", newest + round(0.9 * NS / rate)) == pytest.approx(rate, rel=1e-6)


def test_the_rate_falls_when_no_frame_arrives() -> None:
    seen = RecentFrames(["a"], keep_pixels=True)
    for number in range(31):
        add(seen, number * NS // 30)
    assert seen.rate("a", 2 * NS) == pytest.approx(15)
    assert seen.rate("a", 5 * NS) == pytest.approx(6)
    assert seen.rate("a", 12 * NS) == 0.0


def test_many_threads_can_read_while_frames_arrive() -> None:
    seen, faults, ended = RecentFrames(["a"], keep_pixels=True), [], threading.Event()

    def ask() -> None:
        try:
            while not ended.is_set():
                points = seen.points("a", 0)
                assert [point.number for point in points] == sorted(point.number for point in points)
                seen.rate("a", 10**12)
        except Exception as error:  # noqa: BLE001 - told below
            faults.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3000):
        add(seen, number * POINT_EVERY_NS)
    ended.set()
    for thread in threads:
        thread.join(60)
    assert faults == []
