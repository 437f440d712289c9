"""`edgemeta run` under a service manager that is this test: a real socket, real signals, a real broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from rig.service_manager import ServiceManager
from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys

DEADLINE = 60.0


@pytest.fixture
def manager() -> Iterator[ServiceManager]:
    made = ServiceManager("test")
    yield made
    made.close()


@pytest.mark.gate("7 s: a whole life of the service")
def test_from_ready_to_stopping(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager
) -> None:
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)), **manager.environment(watchdog=4.0))
    assert manager.wait("READY=1") == 1
    subscriber.wait("front/frame", 5)
    manager.wait("frames/s; camera front running; broker 127.0.0.1:", "connected", "WATCHDOG=1")
    while len(manager.fed_at()) < 3:
        manager.wait("WATCHDOG=1", after=len(manager.messages))
    between = [later - earlier for earlier, later in zip(manager.fed_at(), manager.fed_at()[1:], strict=False)]
    assert max(between) < 3.9, "the watchdog wants food within 4 s"
    assert min(between) > 1.0, "half the period is often enough"
    assert daemon.stop() == 0
    manager.wait("STOPPING=1")
    assert manager.messages[-1][1] == "STOPPING=1\nSTATUS=stopping"
    assert [message.split("\n")[0] for _, message in manager.messages].count("READY=1") == 1


@pytest.mark.gate("3 s: the service starts twice")
def test_a_restart_is_a_reload_to_the_manager(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager
) -> None:
    """It has the same process; a service that says that it stops would have to end."""
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)), **manager.environment(watchdog=4.0))
    ready = manager.wait("READY=1")
    subscriber.wait("front/frame", 1)
    subscriber.publish("edgemeta/test/cmd/restart", b"")
    assert subscriber.wait("resp/restart")[0].json["outcome"] == "restarting"
    changing = manager.wait("READY=1", after=manager.wait("RELOADING=1", after=ready))  # the check of the config
    restarting = manager.wait("RELOADING=1", "MONOTONIC_USEC=", after=changing)
    manager.wait("WATCHDOG=1", after=manager.wait("READY=1", after=restarting))
    assert not [message for _, message in manager.messages if "STOPPING=1" in message]
    assert daemon.stop() == 0


def test_without_a_broker_and_without_a_camera_it_is_ready_and_fed(
    free_port: Any, write_config: Any, run_daemon: Any, manager: ServiceManager, tmp_path: Path
) -> None:
    """A known outage is being handled: no reason for the manager to restart the service."""
    config = write_config(
        mqtt={"host": "127.0.0.1", "port": free_port(), "retry": {"initial_delay": 0.05, "max_delay": 0.1}},
        cameras={"front": {"source": str(tmp_path / "gone.avi"), "retry": {"initial_delay": 0.05, "max_delay": 0.1}}},
    )
    run_daemon(config, **manager.environment(watchdog=0.5))
    ready = manager.wait("READY=1")
    seen = manager.wait("WATCHDOG=1", "0.0 frames/s", "gone.avi does not exist", "not connected", after=ready)
    for _ in range(6):
        seen = manager.wait("WATCHDOG=1", after=seen)


def test_a_wrong_config_is_never_ready(run_daemon: Any, write_config: Any, manager: ServiceManager) -> None:
    assert run_daemon(write_config(top_k=0), **manager.environment()).process.wait(DEADLINE) == 78
    assert manager.messages == []


HANGING_WORKER = """
import sys, threading
from edgemeta.cli.main import main
from edgemeta.daemon.inference import pipeline, worker
worker.FRAME_WITHIN = 2.0
classify, frames = pipeline.Pipeline.classify, []
def hang_at_the_tenth_frame(self, *arguments):
    frames.append(0)
    if len(frames) == 10:
        threading.Event().wait()
    return classify(self, *arguments)
pipeline.Pipeline.classify = hang_at_the_tenth_frame
sys.argv = ["edgemeta", "run", sys.argv[1]]
main()
"""


@pytest.mark.gate("4 s: it waits for the watchdog")
def test_a_worker_that_hangs_starves_the_watchdog_and_the_abort_shows_where(
    broker: Any, write_config: Any, manager: ServiceManager, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING_WORKER, str(write_config(mqtt=broker_keys(broker)))],
            stderr=output,
            env=os.environ | manager.environment(watchdog=0.6),
        )
    try:
        manager.wait("READY=1")
        hung = manager.wait("STATUS=worker hangs: no frame classified within 2 s", "camera front running")
        assert not manager.messages[hung - 1][1].startswith("WATCHDOG")
        again = manager.wait("STATUS=worker hangs", after=hung)  # it says so again and is not fed in between
        assert manager.fed_at(after=hung) == []
        manager.wait("STATUS=worker hangs", after=again)
        process.send_signal(signal.SIGABRT)  # what systemd does when WatchdogSec has gone by
        ended = -process.wait(DEADLINE)
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert "worker hangs: no frame classified within 2 s" in said
    assert "the watchdog is not fed" in said
    # CPython reads the stacks of threads that run on meanwhile, and rarely crashes on one (python/cpython#116008).
    assert ended in (signal.SIGABRT, signal.SIGSEGV)
    if ended == signal.SIGABRT:
        assert "in hang_at_the_tenth_frame" in said


HANGING_CAMERA = """
import sys
from edgemeta.cli.main import main
from edgemeta.daemon.capture.sources import image
read_image = image.read_image
def read_as_from_a_failed_network_disk(path):
    path.with_suffix(".pipe").open("rb").close()  # waits for a writer
    return read_image(path)
image.read_image = read_as_from_a_failed_network_disk
sys.argv = ["edgemeta", "run", sys.argv[1]]
main()
"""


@pytest.mark.gate("8 s: it waits for the watchdog")
def test_a_camera_thread_that_hangs_starves_the_watchdog(
    broker: Any, write_config: Any, manager: ServiceManager, tmp_path: Path
) -> None:
    picture = tmp_path / "1.png"
    cv2.imwrite(str(picture), np.full((48, 64, 3), 90, np.uint8))
    os.mkfifo(picture.with_suffix(".pipe"))
    config = write_config(mqtt=broker_keys(broker), cameras={"front": {"source": str(picture), "frame_timeout": 0.1}})
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING_CAMERA, str(config)], env=os.environ | manager.environment(watchdog=0.5)
    )
    try:
        manager.wait("WATCHDOG=1")
        hung = manager.wait("STATUS=camera front hangs: reading a frame, ")
        manager.wait("STATUS=camera front hangs", after=hung)
        assert manager.fed_at(after=hung) == []
        picture.with_suffix(".pipe").open("wb").close()
        manager.wait("WATCHDOG=1", "camera front ended", after=hung)
    finally:
        process.kill()
        process.wait()


def reload(daemon: Any, manager: ServiceManager) -> str:
    """Send SIGHUP; return the status at the READY=1 that follows RELOADING=1."""
    before = len(manager.messages)
    asked_us = time.monotonic_ns() // 1000
    daemon.process.send_signal(signal.SIGHUP)
    began = manager.wait("RELOADING=1\nMONOTONIC_USEC=", after=before)
    assert int(manager.messages[began - 1][1].partition("MONOTONIC_USEC=")[2]) >= asked_us
    done = manager.wait("READY=1", after=began)
    return manager.messages[done - 1][1].partition("STATUS=")[2]


def test_reload_applies_what_it_can_between_two_frames(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager
) -> None:
    slow = {"mqtt": broker_keys(broker), "stats": {"interval": 3600}, "top_k": 3}
    daemon = run_daemon(write_config(**slow), **manager.environment())
    assert len(subscriber.wait("front/frame", 3)[-1].json["labels"]) == 3
    manager.wait("READY=1")
    write_config(**slow | {"stats": {"interval": 0.2}, "top_k": 1, "state": {"min_frames": 1, "window_frames": 1}})
    assert reload(daemon, manager).endswith(
        "; config reloaded: applied top_k, state.min_frames, state.window_frames, stats.interval"
    )
    subscriber.wait_for("front/frame", lambda message: len(message.json["labels"]) == 1)
    subscriber.wait("stats", 3)
    first = subscriber.wait("info")[0].json
    second = subscriber.wait_for("info", lambda message: message.json["config_sha256"] != first["config_sha256"]).json
    assert first["boot"] == second["boot"]
    frames = [message.json for message in subscriber.on("front/frame")]
    missing = [frame["sequence"] - 1 - sum(frame["dropped"].values()) - n for n, frame in enumerate(frames)]
    assert set(missing) == {0}, "a reload loses no frame"
    assert reload(daemon, manager).endswith("; config reloaded: nothing changed")


def test_an_invalid_config_changes_nothing_and_the_status_says_why(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager
) -> None:
    keys = {"mqtt": broker_keys(broker), "stats": {"interval": 3600}}
    path = write_config(**keys, top_k=2)
    daemon = run_daemon(path, **manager.environment(watchdog=1.0))
    manager.wait("READY=1")
    write_config(**keys | {"stats": {"interval": 0.1}}, top_k=0)
    line = path.read_text().splitlines().index("top_k: 0") + 1
    status = reload(daemon, manager)
    assert status.endswith(f"; config not reloaded: {path}:{line}: top_k: found 0, expected at least 1"), status
    path.write_text("top_k: [")
    assert "config not reloaded: " in reload(daemon, manager)
    path.unlink()
    assert "found a file that cannot be read" in reload(daemon, manager)
    manager.wait("WATCHDOG=1", "found a file that cannot be read", after=len(manager.messages))  # it stays
    newest = len(subscriber.on("front/frame"))
    assert {len(m.json["labels"]) for m in subscriber.wait("front/frame", newest + 3)} == {2}
    assert subscriber.on("stats") == []
    assert len({message.json["config_sha256"] for message in subscriber.on("info")}) == 1
    assert "the config was not reloaded; nothing changed" in daemon.said
    write_config(**keys, top_k=1)
    assert reload(daemon, manager).endswith("; config reloaded: applied top_k")
    assert daemon.stop() == 0


def test_keys_that_need_a_restart_are_named_and_keep_their_values(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager, model_file: Path
) -> None:
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)), **manager.environment())
    manager.wait("READY=1")
    write_config(mqtt=broker_keys(broker) | {"base_topic": "other"}, device="renamed", top_k=1)
    assert reload(daemon, manager).endswith("; config reloaded: applied top_k; device, mqtt.base_topic need a restart")
    frame = subscriber.wait_for("front/frame", lambda message: len(message.json["labels"]) == 1)
    assert frame.topic == "edgemeta/test/front/frame"
    model_file.write_bytes(b"no model")
    assert "config not reloaded: " in reload(daemon, manager)
    newest = len(subscriber.on("front/frame"))
    subscriber.wait("front/frame", newest + 3)


def test_a_camera_whose_keys_change_is_restarted_and_the_others_run_on(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager, colours: Path
) -> None:
    def cameras(colour: int, fps: int) -> dict[str, Any]:
        change_started = {"source": str(colours / f"{colour}.png"), "loop": True, "fps": fps}
        return {"changing": change_started, "steady": {"source": "synthetic://"}}

    daemon = run_daemon(write_config(mqtt=broker_keys(broker), cameras=cameras(0, 20)), **manager.environment())
    manager.wait("READY=1")
    subscriber.wait("changing/frame", 5)
    subscriber.wait("steady/frame", 5)
    write_config(mqtt=broker_keys(broker), cameras=cameras(2, 10) | {"more": {"source": "synthetic://"}})
    assert reload(daemon, manager).endswith(
        "; config reloaded: applied cameras.changing.source, cameras.changing.fps; cameras.more needs a restart"
    )
    subscriber.wait_for("changing/frame", lambda message: message.json["labels"][0]["label"] == "blue")
    subscriber.wait("changing/frame", len(subscriber.on("changing/frame")) + 3)
    labels = [message.json["labels"][0]["label"] for message in subscriber.on("changing/frame")]
    assert labels == sorted(labels, reverse=True), "all red, then all blue"
    for camera in ("changing", "steady"):
        frames = [message.json for message in subscriber.on(f"{camera}/frame")]
        missing = [frame["sequence"] - 1 - sum(frame["dropped"].values()) - n for n, frame in enumerate(frames)]
        assert set(missing) == {0}, "every frame is numbered and accounted for"
    running = subscriber.wait_for("changing/status", lambda message: message.json["source"].endswith("2.png"))
    assert running.json["status"] in ("opening", "running")
    assert {message.json["status"] for message in subscriber.on("steady/status")} <= {"opening", "running"}
    assert daemon.stop() == 0


def test_sighup_at_any_moment_ends_nothing(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, manager: ServiceManager
) -> None:
    """Once the handlers are there, also before the service is ready; many at once may become few reloads."""
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)), **manager.environment())
    manager.wait("READY=1")
    for _ in range(20):
        daemon.process.send_signal(signal.SIGHUP)
    manager.wait("RELOADING=1")
    subscriber.wait("front/frame", 5)

    def unfinished() -> int:
        said = [message.split("\n")[0] for _, message in list(manager.messages)]
        return said.count("RELOADING=1") - (said.count("READY=1") - 1)

    wait_until(lambda: unfinished() == 0, "the end of a reload")
    assert daemon.stop() == 0
    manager.wait("STOPPING=1")
    assert unfinished() in (0, 1), "another one may have begun before the stop"


def test_child_processes_do_not_inherit_the_socket(
    write_config: Callable[..., Path], manager: ServiceManager, tmp_path: Path
) -> None:
    """A source's helper process does not inherit the socket's name, so it cannot speak for the service."""
    program = (
        "import os; from edgemeta.daemon.runtime.sd_notify import Notifier; Notifier.from_environment(os.environ); "
    )
    child = "import os; print({'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'} & set(os.environ))"
    run = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    result = subprocess.run(
        [sys.executable, "-c", program + run],
        env=os.environ | manager.environment(watchdog=1.0) | {"WATCHDOG_PID": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "set()\n"
