"""Faults of the RTSP cameras and of the network to them."""

import os
import signal
import time
from collections.abc import Iterator

from rig.faults.fault import fault
from rig.scenario import BACK_WITHIN, CAMERA_TIMEOUT, CLIP, OTHERS, STREET, Scenario
from rig.waiting import RigError


@fault("camera", "RTSP server killed")
def camera_killed(scenario: Scenario) -> Iterator[None]:
    """It returns with another frame size."""
    scenario.camera.kill()
    _camera_is_away(scenario)
    yield
    width, height = scenario.random.choice([(320, 240), (640, 360), (176, 144)])
    scenario.camera.start(width, height)


@fault("camera", "RTSP server frozen")
def camera_frozen(scenario: Scenario) -> Iterator[None]:
    """It keeps its connections open and delivers no frame."""
    scenario.camera.freeze()
    scenario.pause(0.2, 3 * CAMERA_TIMEOUT)
    yield
    scenario.camera.thaw()


@fault("camera", "network to the camera cut")
def cable_reset(scenario: Scenario) -> Iterator[None]:
    """Connections are refused."""
    scenario.camera_proxy.reset()
    _camera_is_away(scenario)
    yield
    scenario.camera_proxy.restore(forget=True)


@fault("camera", "network to the camera silent")
def cable_silent(scenario: Scenario) -> Iterator[None]:
    """Nothing arrives, and no connection is closed."""
    scenario.camera_proxy.silence()
    scenario.pause(0.2, 3 * CAMERA_TIMEOUT)
    yield
    scenario.camera_proxy.restore(forget=scenario.random.random() < 0.5)


@fault("camera", "another camera returns beside a silent one", alone=True)
def others_return(scenario: Scenario) -> Iterator[None]:
    """One server accepts connections and says nothing; three streams of another one end and come back."""
    scenario.camera_proxy.silence()
    scenario.others.kill()
    scenario.pause(0.5, 3 * CAMERA_TIMEOUT)
    back = scenario.frames_of(*OTHERS)
    scenario.others.start()
    took = back(time.monotonic())
    scenario.time("three cameras' return beside a silent one", took, BACK_WITHIN)
    yield
    scenario.camera_proxy.restore(forget=True)


@fault("camera", "processes of streams killed", alone=True)
def stream_processes_killed(scenario: Scenario) -> Iterator[None]:
    """One stream's, or the parent of all."""
    processes = scenario.system.running.stream_processes
    if len(processes) != 2 + len(OTHERS):
        raise RigError(f"found {len(processes)} processes of streams, expected one for each and their parent")
    os.kill(scenario.random.choice([processes[0], processes[-1]]), signal.SIGKILL)
    yield


def _camera_is_away(scenario: Scenario) -> None:
    """The status reports the failure of this camera only, as soon as the broker is available."""
    if scenario.alone:
        scenario.wait_for_retained(f"{STREET}/status", {"status": "failed"})
        for name in (CLIP, *OTHERS):
            scenario.wait_for_retained(f"{name}/status", {"status": "running", "reason": None})
