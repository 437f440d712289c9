"""A camera that fails and returns: its first frame is published without waiting for a timeout."""

import os
import signal
import time
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import pytest

from rig.waiting import wait_until

WITHIN = 30.0
"""Seconds from the camera's return to its first published frame, half of what it would take to wait for a timeout.
`reliability/camera_return.py` measures them."""


def config(write_config: Any, broker: Any, port: int, timeout: float) -> Any:
    source = {"source": f"rtsp://127.0.0.1:{port}/cam", "frame_timeout": timeout}
    return write_config(cameras={"front": source}, mqtt={"host": "127.0.0.1", "port": broker.port})


def first_frame_after(subscriber: Any, began: float) -> float:
    """Return the seconds from `began` to the next frame message."""
    subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 1)
    return time.monotonic() - began


def failures(subscriber: Any) -> list[Any]:
    """Messages that say that the camera has failed; the newest status may say already that it runs again."""
    return [each.json for each in subscriber.on("front/status") if each.json["status"] == "failed"]


@pytest.mark.gate("8 s: a camera that is killed and restarted")
def test_an_rtsp_camera_that_is_killed_and_restarted(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, rtsp_server: Any, free_port: Any
) -> None:
    port = free_port()
    server = rtsp_server(port)
    run_daemon(config(write_config, broker, port, timeout=60.0))
    took = []
    for _ in range(3):
        subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 5)
        before = len(failures(subscriber))
        server.kill()
        wait_until(lambda before=before: len(failures(subscriber)) > before, "the camera to fail")
        server = rtsp_server(port)
        took.append(first_frame_after(subscriber, time.monotonic()))
    assert max(took) <= WITHIN, took


@pytest.mark.gate("4 s: until a frame counts as missing")
def test_an_rtsp_camera_that_freezes_and_continues(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, rtsp_server: Any, free_port: Any
) -> None:
    """A stopped server holds its connections and says nothing, as a camera does that hangs or lost its network."""
    port = free_port()
    server = rtsp_server(port)
    run_daemon(config(write_config, broker, port, timeout=1.0))
    subscriber.wait("front/frame", 5)
    server.freeze()
    wait_until(lambda: bool(failures(subscriber)), "the camera to fail")
    assert "gave no frame for 1 s" in failures(subscriber)[0]["reason"]
    server.thaw()
    assert first_frame_after(subscriber, time.monotonic()) <= WITHIN


def test_a_pipeline_that_is_killed_is_restarted(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    if find_library("gstapp-1.0") is None:
        pytest.skip("GStreamer is not installed (Debian package gstreamer1.0-plugins-base)")
    source = "gstreamer://videotestsrc is-live=true pattern=snow ! video/x-raw,width=64,height=48,framerate=15/1"
    daemon = run_daemon(
        write_config(cameras={"front": {"source": source}}, mqtt={"host": "127.0.0.1", "port": broker.port})
    )
    subscriber.wait("front/frame", 5)
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    (pipeline,) = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    os.kill(pipeline, signal.SIGKILL)
    wait_until(lambda: bool(failures(subscriber)), "the camera to fail")
    assert first_frame_after(subscriber, time.monotonic()) <= WITHIN
    assert daemon.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pipeline, 0)
