"""A camera that was moved, turned or covered is named, and one that only sees people, cars and other light is not."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.liveness import MOVED, Liveness
from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.capture.steady_view import ADOPTED_AFTER_NS, SteadyView, likeness_of, view_of
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.clock import NS
from reliability.moved_cameras import CLIPS, MOVED_AFTER, alarms, clip, named_after, warped

SECONDS = 3.0


def scene(seed: int = 0) -> Pixels:
    """A picture of smooth chance: edges of all directions."""
    coarse = np.random.default_rng(seed).integers(0, 256, (18, 32, 3)).astype(np.uint8)
    return np.asarray(cv2.resize(coarse, (320, 180), interpolation=cv2.INTER_CUBIC), np.uint8)


def seen(view: SteadyView, pixels: Pixels, begin: float, end: float) -> float | None:
    """Show a picture twice a second; return after how many seconds the view counts as moved, None if it does not."""
    for half in range(round(2 * begin), round(2 * end)):
        view.add(pixels, half * NS // 2)
        if view.moved:
            return half / 2 - begin
    return None


def test_it_counts_as_moved_after_so_long_and_as_before_when_it_is_back() -> None:
    view = SteadyView(SECONDS)
    assert seen(view, scene(), 1, 60) is None
    assert seen(view, warped(scene(), "shift", 0.1), 60, 62.5) is None
    assert seen(view, scene(), 62.5, 70) is None, "a moment is none"
    assert seen(view, warped(scene(), "shift", 0.1), 70, 90) == pytest.approx(SECONDS + 0.5, abs=0.51)
    view.add(scene(), 90 * NS)
    assert not view.moved


@pytest.mark.parametrize("cover", [np.zeros((180, 320, 3), np.uint8), np.full((180, 320, 3), 130, np.uint8)])
def test_a_covered_lens_counts(cover: Pixels) -> None:
    view = SteadyView(SECONDS)
    seen(view, scene(), 1, 20)
    assert seen(view, cover, 20, 30) is not None


def test_another_view_becomes_the_known_one_after_ten_minutes() -> None:
    view = SteadyView(SECONDS)
    seen(view, scene(), 1, 20)
    assert seen(view, scene(1), 20, 30) is not None
    for half in range(60, 60 + 2 * ADOPTED_AFTER_NS // NS + 10):
        view.add(scene(1), half * NS // 2)
    assert not view.moved
    assert seen(view, scene(), 700, 710) is not None


def test_the_course_of_light_is_no_change() -> None:
    """From day to night and back within ten minutes, the noise of the sensor rising; a lamp that is switched on."""
    view, day = SteadyView(SECONDS), scene().astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 4, (300, 320, 3)).astype(np.float32)
    for half in range(1200):
        light = 0.2 + 0.8 * abs(1 - half / 600)
        picture = day * light + noise[half % 97 :][:180]
        view.add(np.clip(picture, 0, 255).astype(np.uint8), half * NS // 2)
        assert not view.moved
    assert seen(view, np.clip(scene() * 0.5 + 90.0, 0, 255).astype(np.uint8), 600, 630) is None


def test_a_picture_without_edges_is_never_moved() -> None:
    view = SteadyView(SECONDS)
    assert seen(view, np.full((48, 64, 3), 80, np.uint8), 0, 20) is None
    assert seen(view, scene(), 20, 40) is None
    assert likeness_of(view_of(scene()), view_of(scene())) == pytest.approx(1, abs=1e-5)


@pytest.mark.gate("real clips: 2 s each")
@pytest.mark.parametrize("name", CLIPS)
def test_real_clips_are_steady_and_moves_are_named(shared_data: Path, name: str) -> None:
    pictures = clip(shared_data / "video" / name)
    assert len(pictures) > 20
    assert alarms(pictures) == 0
    for kind, by in (("shift", 0.1), ("turn", 15)):
        named = named_after(pictures, kind, by)
        assert named is not None
        assert named <= MOVED_AFTER + 1


def test_a_live_camera_that_was_moved_has_a_problem_and_goes_on_running() -> None:
    liveness = Liveness(CameraConfig(source="rtsp://camera", moved_after=2, frozen_after=None))
    said = []
    for half in range(80):
        picture = scene() if half < 40 else warped(scene(), "turn", 30)
        _, finding = liveness.look(Frame(picture, (half + 2) * NS // 2))
        assert finding.state is CameraState.RUNNING
        said.append(finding.reason)
    assert set(said[:43]) == {None}
    assert set(said[46:]) == {MOVED}
