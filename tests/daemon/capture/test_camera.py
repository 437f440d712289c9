"""The camera's thread: frames, status, reopening, end."""

import itertools
import logging
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture import camera as module
from edgemeta.daemon.capture.liveness import MOVED
from edgemeta.daemon.capture.load import CameraLoad
from edgemeta.daemon.capture.source import Frame, SourceEnded, SourceError, SourceSilentError
from edgemeta.daemon.runtime.clock import NS
from rig.waiting import wait_until
from tests.daemon.capture.scripted import CONFIG, Scripted


def test_it_reopens_after_failures_and_reports_each_error_once(start: Any) -> None:
    away = SourceError("away")
    source = Scripted(51, 52, away, away, away, SourceError("other"), 53)
    _, watch = start(source)
    watch.wait(lambda: watch.frames == [51, 52, 53] and watch.states[-1] == "running" and len(watch.reported) == 5)
    assert watch.states == ["opening", "running", "failed", "failed", "running"]
    assert [status.reason for status in watch.reported] == [None, None, "away", "other", None]
    assert [status.failures for status in watch.reported] == [0, 0, 1, 4, 4]
    assert source.opened == 5
    assert source.closed == 4


def test_a_source_that_ends_ends_the_camera(start: Any) -> None:
    source = Scripted(1, SourceEnded())
    _, watch = start(source)
    watch.wait(lambda: watch.states[-1:] == ["ended"])
    assert (source.opened, source.closed) == (1, 1)


def test_a_frame_that_was_delivered_is_not_kept(start: Any) -> None:
    """The next one may be long in coming, and a picture has megabytes."""
    given: list[weakref.ref[Any]] = []

    class Weak(Scripted):
        def read(self) -> Frame:
            frame = super().read()
            given.append(weakref.ref(frame.pixels))
            return frame

    _, watch = start(Weak(1))
    watch.wait(lambda: watch.frames == [1])
    wait_until(lambda: given[0]() is None, "the picture to be released")


def test_it_keeps_the_interval(start: Any) -> None:
    begun = time.monotonic()
    _, watch = start(Scripted(*range(6), interval_ns=50_000_000))
    watch.wait(lambda: len(watch.frames) == 6)
    assert time.monotonic() - begun >= 0.25


def test_stop_interrupts_a_long_interval(start: Any) -> None:
    camera, watch = start(Scripted(1, 2, interval_ns=3600 * 10**9))
    watch.wait(lambda: watch.frames == [1])
    begun = time.monotonic()
    camera.stop()
    camera.join(60)
    assert time.monotonic() - begun < 30.0
    assert watch.states[-1] == "stopped"


def test_a_hanging_source_is_abandoned_and_reports_nothing_more(start: Any) -> None:
    source = Scripted(1)
    camera, watch = start(source)
    watch.wait(lambda: watch.frames == [1])
    camera.stop()
    camera.join(0.05)
    assert watch.states[-1] == "stopped"
    source.done.set()
    camera.join(60)
    assert watch.states[-1] == "stopped"


def test_an_unexpected_error_is_reported(start: Any) -> None:
    fault = ZeroDivisionError()
    source = Scripted(1, fault)
    _, watch = start(source)
    watch.wait(lambda: watch.crashes == [fault])
    assert source.closed == 1


def test_a_frozen_camera_stays_frozen_while_it_is_reopened_until_its_picture_changes(
    start: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same picture every 20 ms: frozen after 0.2 s. Its frames go on, and each change is said once."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("edgemeta.daemon.capture.liveness.REOPENED_AFTER", 0.05)
    source = Scripted(*[99] * 60, 200, 210, 220, interval_ns=20_000_000)
    _, watch = start(source)
    watch.wait(lambda: watch.frames[-1:] == [220])
    assert watch.states == ["opening", "running", "frozen", "running"]
    assert watch.reported[2].reason == "the picture has not changed for 0.2 s or longer"
    assert source.opened in range(3, 8)
    assert len(watch.frames) == 63
    assert caplog.messages == [
        "camera front: opening",
        "camera front: running",
        "camera front: the picture has not changed for 0.2 s or longer",
        "camera front: running",
    ]


def test_a_frozen_source_that_cannot_be_reopened_has_failed(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted(*[99] * 60, interval_ns=20_000_000)
    opened = source.open

    def refuse_once() -> None:
        opened()
        if source.opened == 2:
            raise SourceError("away")

    monkeypatch.setattr(source, "open", refuse_once)
    camera, watch = start(source)
    watch.wait(lambda: watch.states[-3:] == ["frozen", "failed", "frozen"])
    assert (camera.failures, camera.outages) == (1, 1)


def test_a_black_camera_is_black_until_it_is_not(start: Any) -> None:
    source = Scripted(*[0, 1] * 4, 99, interval_ns=50_000_000)
    _, watch = start(source)
    watch.wait(lambda: watch.frames[-1:] == [99] and watch.reported[-1].reason is None and len(watch.reported) == 4)
    assert watch.states == ["opening", "running", "black", "running"]
    assert watch.reported[2].reason == "black for 0.1 s or longer"
    assert source.opened == 1


def test_a_delayed_stream_is_delayed_and_says_when_frames_were_captured(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of 50 frames/s that gives 25: after 0.6 s its frames are 0.3 s late."""
    monkeypatch.setattr("edgemeta.daemon.capture.liveness.HELD_NS", 0)
    source = Scripted(*range(60), interval_ns=20_000_000)
    read, began = source.read, time.monotonic_ns()
    source.read = lambda: read()._replace(stream_ns=(time.monotonic_ns() - began) // 2)  # type: ignore[method-assign]
    camera, watch = start(source)
    watch.wait(lambda: watch.states[-1:] == ["delayed"])
    assert watch.reported[-1].reason == "frames arrive more than 0.3 s late"
    assert camera.delay is not None
    assert camera.delay > 0.3
    assert camera.last_frame_ns is not None
    assert time.monotonic_ns() - camera.last_frame_ns > 0.3 * NS


def test_damaged_frames_are_counted_and_named_when_they_last(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.capture.liveness.APART_NS", 0)
    source = Scripted(1, 2, 3, 4, interval_ns=1_000_000)
    read = source.read
    source.read = lambda: read()._replace(damaged=5 - len(source.script))  # type: ignore[method-assign]
    camera, watch = start(source)
    watch.wait(lambda: watch.reported[-1].reason == "frames are damaged again and again")
    assert watch.states == ["opening", "running", "running"]
    assert camera.damaged >= 3
    assert watch.reported[-1].damaged >= 3


def test_files_may_repeat_frames(start: Any) -> None:
    source = Scripted(*[0] * 20, interval_ns=25_000_000)
    source.live = False
    _, watch = start(source)
    watch.wait(lambda: len(watch.frames) == 20)
    assert watch.states == ["opening", "running"]


def test_an_unstable_camera_is_logged_once(
    start: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fault 50 times with frames between, another fault, then a steady run: each is said once."""
    caplog.set_level(logging.INFO)
    away, other = SourceError("away"), SourceError("other")
    pictures = [step for number in range(50) for step in (40 + 4 * number, away)]
    source = Scripted(*pictures, 50, other, *range(60, 120, 10), interval_ns=1_000_000)
    monkeypatch.setattr("edgemeta.daemon.capture.camera.STEADY_AFTER_NS", 3_000_000)
    _, watch = start(source)
    watch.wait(lambda: watch.frames[-1:] == [110] and "camera front: recovered" in caplog.messages)
    assert caplog.messages == [
        f"camera front: {description}" for description in ("opening", "running", "away", "other", "recovered")
    ]
    assert watch.states.count("failed") == 51, "the status says every change"


def test_a_camera_waits_to_be_opened_and_says_why(start: Any) -> None:
    allowed = threading.Event()
    source = Scripted(1)
    _, watch = start(source, CameraLoad(opens_in=lambda: 0.0 if allowed.is_set() else 0.06))
    watch.wait(lambda: len(watch.reported) == 2)
    assert watch.reported[1].description == "opening: waits until the service is not overloaded any more"
    assert source.opened == 0
    allowed.set()
    watch.wait(lambda: watch.frames == [1])


def test_frames_that_nobody_would_take_are_not_read_but_counted(start: Any) -> None:
    """A frame per 10 ms; for a while the worker takes none."""
    missed: list[int] = []
    behind = threading.Event()
    source = Scripted(*[7] * 10_000, interval_ns=10_000_000)
    began = time.monotonic()
    _, watch = start(source, CameraLoad(is_behind=behind.is_set, missed=missed.append))
    watch.wait(lambda: bool(watch.frames))
    behind.set()
    wait_until(lambda: sum(missed) >= 15, "frames that are not read")
    read = len(watch.frames)
    assert sum(missed) + read <= (time.monotonic() - began) / 0.01 + 2
    behind.clear()
    watch.wait(lambda: len(watch.frames) > read + 3)


def test_frames_that_a_late_service_did_not_read_are_counted(start: Any) -> None:
    """A delivery takes as long as ten frames, as on a busy machine: nine of ten are missed."""
    missed: list[int] = []
    source = Scripted(*[7] * 10_000, interval_ns=10_000_000)
    began = time.monotonic()
    camera, watch = start(source, CameraLoad(missed=missed.append), delivery=0.1)
    watch.wait(lambda: len(watch.frames) >= 4)
    camera.stop()
    camera.join(60)
    assert camera.last_frame_ns is not None
    due_by_the_last, due = (camera.last_frame_ns / NS - began) / 0.01, (time.monotonic() - began) / 0.01
    assert 0.6 * due_by_the_last < sum(missed) + len(watch.frames) < due + 2


def test_silence_that_a_starved_service_heard_is_no_failure(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service was awake for a moment only; when it is awake all the time, silence counts."""
    awake = SimpleNamespace(seconds=0.0, now=lambda: awake.seconds)
    monkeypatch.setattr(module, "AWAKE", awake)
    silent = SourceSilentError("gave no frame for 5 s")
    source = Scripted(1, silent, silent, 2, silent)
    source.done.set()
    _, watch = start(source)
    watch.wait(lambda: "ended" in watch.states)
    assert watch.states == ["opening", "running", "ended"]
    assert watch.frames == [1, 2]

    awake.now = itertools.count(0, 10).__next__
    source = Scripted(1, silent, 2)
    source.done.set()
    _, watch = start(source)
    watch.wait(lambda: "ended" in watch.states)
    assert watch.states == ["opening", "running", "failed", "running", "ended"]


def test_frames_that_a_source_decoded_and_nobody_took_are_counted(start: Any) -> None:
    missed: list[int] = []
    source = Scripted(1, 2, 3)
    totals = iter((0, 4, 4))
    read = source.read
    source.read = lambda: read()._replace(skipped=next(totals))  # type: ignore[method-assign]
    _, watch = start(source, CameraLoad(missed=missed.append))
    watch.wait(lambda: watch.frames == [1, 2, 3])
    assert sum(missed) == 4


class Views(Scripted):
    """A source whose numbers are scenes: each differs from the others everywhere."""

    def read(self) -> Frame:
        frame = super().read()
        coarse = np.random.default_rng(frame.pixels[0, 0, 0]).integers(0, 256, (9, 16, 3)).astype(np.uint8)
        scene = cv2.resize(coarse, (320, 180), interpolation=cv2.INTER_CUBIC)
        return frame._replace(pixels=np.asarray(scene, np.uint8))


def test_a_camera_that_was_moved_runs_with_a_reason_until_it_is_back(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemeta.daemon.capture.steady_view.LOOK_EVERY_NS", NS // 100)
    moved = {"moved_after": 1.0, "frozen_after": None, "delayed_after": None}
    source = Views(*[1] * 10, *[2] * 70, *[1] * 5, interval_ns=NS // 50)
    _, watch = start(source, config=CONFIG.model_copy(update=moved))
    watch.wait(lambda: len(watch.frames) == 85)
    assert [(status.state.value, status.reason) for status in watch.reported[1:]] == [
        ("running", None),
        ("running", MOVED),
        ("running", None),
    ]
    assert source.opened == 1
