"""When a camera opens its source again, and what it says meanwhile."""

import threading
from typing import Any

import pytest

from edgemeta.daemon.capture.camera import Camera
from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import SourceError, SourceWaiting
from rig.waiting import wait_until
from tests.daemon.capture.scripted import CONFIG, Scripted, Watch


def test_a_stream_that_its_server_ends_is_no_outage(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.capture.camera.RAN_AFTER_NS", 0)
    source = Scripted(50, SourceError("ended", Retry.RESUME), 60, SourceError("ended", Retry.RESUME), 70)
    camera, watch = start(source)
    watch.wait(lambda: watch.frames == [50, 60, 70])
    assert watch.states == ["opening", "running"]
    assert (source.opened, camera.outages) == (3, 0)


def test_a_stream_that_does_not_come_again_has_failed(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.capture.camera.RAN_AFTER_NS", 0)
    source = Scripted(50, SourceError("ended", Retry.RESUME), SourceError("away"), 60)
    camera, watch = start(source)
    watch.wait(lambda: watch.frames == [50, 60])
    assert watch.states == ["opening", "running", "failed", "running"]
    assert [status.failures for status in watch.reported] == [0, 0, 2, 2]
    assert camera.outages == 1


def test_a_stream_that_ends_soon_is_not_asked_again_at_once(start: Any) -> None:
    _, watch = start(Scripted(50, SourceError("ended", Retry.RESUME), 60))
    watch.wait(lambda: watch.frames == [50, 60])
    assert watch.states == ["opening", "running", "failed", "running"]


def test_a_key_frame_is_awaited_without_a_failure(start: Any) -> None:
    source = Scripted(SourceWaiting("waiting for a key frame"), SourceWaiting("waiting for a key frame"), 50)
    camera, watch = start(source)
    watch.wait(lambda: watch.frames == [50])
    assert [(status.state.value, status.reason) for status in watch.reported] == [
        ("opening", None),
        ("opening", "waiting for a key frame"),
        ("running", None),
    ]
    assert (source.opened, camera.failures) == (1, 0)


def test_failures_of_the_status_and_of_the_metric_are_the_same(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offline camera fails twice a second: not each failure is a message, but both numbers are one."""
    away = SourceError("away")
    camera, watch = start(Scripted(*[away] * 20))
    wait_until(lambda: camera._failures == 20, "all failures")
    assert camera.failures == watch.reported[-1].failures == 1
    monkeypatch.setattr("edgemeta.daemon.capture.camera.REPORTED_EVERY_NS", 0)
    camera._source.script = [away] * 5  # type: ignore[attr-defined]
    camera._source.done.set()  # type: ignore[attr-defined]
    watch.wait(lambda: watch.states[-1] == "ended")
    assert camera.failures == watch.reported[-1].failures


def test_without_a_thread_it_is_this_camera_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    watch = Watch()
    camera = Camera(
        "front", CONFIG, Scripted(50), print, lambda _, status: watch.reported.append(status), watch.crashes.append
    )
    camera.start()
    assert watch.reported[-1].description == "failed: has no thread of its own: can't start new thread"
    camera.stop()
    camera.join(1)
    assert watch.states == ["opening", "failed", "stopped"]


def test_a_corrected_login_is_tried_before_its_time(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.capture.camera.LOOK_EVERY", 0.01)
    corrected = threading.Event()
    _, watch = start(Scripted(SourceError("refused the login", Retry.LATE, corrected.is_set), 50))
    watch.wait(lambda: watch.states[-1] == "failed")
    corrected.set()
    watch.wait(lambda: watch.frames == [50])
