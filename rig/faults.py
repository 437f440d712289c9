"""Faults of broker, network, camera, disk and service.

Each fault is a generator. Up to its `yield` it causes the fault and checks what the service reports; after it the part
works again. The suite then waits for frames of both cameras.
"""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rig.command_client import send_command
from rig.flooder import KINDS, Flooder
from rig.scenario import CAMERA_TIMEOUT, CURRENT, STREET, Scenario
from rig.waiting import TIMEOUT, RigError, wait_until

FLOOD_SECONDS = 3.0

Steps: TypeAlias = Callable[[Scenario], Iterator[None]]


@dataclass(frozen=True)
class Fault:
    """A fault of one part. Faults of different parts may be combined.

    alone: never combined, because it needs the other parts to check the result, or because messages that wait in memory
    are lost with the service by design. disk: needs a separate disk.
    """

    part: str
    name: str
    steps: Steps
    alone: bool = False
    disk: bool = False


FAULTS: list[Fault] = []

ROOM_USED_UP = 60.0
"""Seconds within which messages fill the reserved space of the outbox file on a full disk."""


def fault(part: str, name: str, alone: bool = False, disk: bool = False) -> Callable[[Steps], Steps]:
    """Add a fault to the list."""

    def put(steps: Steps) -> Steps:
        FAULTS.append(Fault(part, name, steps, alone, disk))
        return steps

    return put


@fault("broker", "broker killed, back with what it saved")
def broker_killed(scenario: Scenario) -> Iterator[None]:
    """SIGKILL."""
    yield
    scenario.system.restart_broker(signal.SIGKILL, empty=False, pause=lambda: scenario.pause(0.1, 2.0))


@fault("broker", "broker stopped, back empty")
def broker_empty(scenario: Scenario) -> Iterator[None]:
    """All retained topics must be published again."""
    yield
    scenario.system.restart_broker(signal.SIGTERM, empty=True, pause=lambda: scenario.pause(0.1, 2.0))


@fault("broker", "broker frozen")
def broker_frozen(scenario: Scenario) -> Iterator[None]:
    """Connections stay open, but get no answer."""
    scenario.system.broker.freeze()
    yield
    scenario.system.broker.thaw()
    wait_until(scenario.system.subscriber.subscribed.is_set, "the subscriber")


@fault("broker", "network to the broker cut")
def network_reset(scenario: Scenario) -> Iterator[None]:
    """The broker publishes the last will."""
    scenario.system.proxy.reset()
    scenario.wait_for_retained("availability", "offline")
    yield
    scenario.system.proxy.restore(forget=True)


@fault("broker", "network to the broker silent")
def network_silent(scenario: Scenario) -> Iterator[None]:
    """Nothing arrives, and no connection is closed. Afterwards the old connection may continue."""
    scenario.system.proxy.silence()
    scenario.pause(0.5, 3.0)
    yield
    scenario.system.proxy.restore(forget=scenario.random.random() < 0.5)


@fault("broker", "acknowledgements swallowed")
def acknowledgements_swallowed(scenario: Scenario) -> Iterator[None]:
    """Some or all are dropped; unacknowledged messages are sent again on a new connection."""
    count = scenario.random.choice([3, 25, float("inf")])
    scenario.system.proxy.drop_packets(count)
    if scenario.alone and count == float("inf"):
        scenario.wait_for_status("has not acknowledged a message")
    yield
    scenario.system.proxy.pass_all()


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


def _camera_is_away(scenario: Scenario) -> None:
    """The status reports the failure of this camera only, as soon as the broker is available."""
    if scenario.alone:
        scenario.wait_for_retained(f"{STREET}/status", {"status": "failed"})
        scenario.wait_for_retained("clip/status", {"status": "running", "reason": None})


@fault("service", "service killed")
def service_killed(scenario: Scenario) -> Iterator[None]:
    """SIGKILL. The messages in its outbox file must arrive later."""
    scenario.system.running.kill()
    yield from _service_is_away(scenario)


@fault("service", "service stopped and started")
def service_stopped(scenario: Scenario) -> Iterator[None]:
    """SIGTERM."""
    scenario.stop_service()
    yield from _service_is_away(scenario)


@fault("service", "service stopped for a moment")
def service_frozen(scenario: Scenario) -> Iterator[None]:
    """SIGSTOP, shorter than the watchdog's timeout: it continues normally."""
    service = scenario.system.running
    service.process.send_signal(signal.SIGSTOP)
    scenario.pause(0.1, 1.0)
    service.process.send_signal(signal.SIGCONT)
    yield


@fault("service", "service frozen until its watchdog aborts it")
def service_starved(scenario: Scenario) -> Iterator[None]:
    """SIGSTOP without SIGCONT."""
    scenario.system.running.process.send_signal(signal.SIGSTOP)
    yield from _aborted(scenario)


@fault("service", "a camera's thread hangs until the watchdog aborts the service")
def thread_hangs(scenario: Scenario) -> Iterator[None]:
    """Reading a pipe without a writer blocks for ever. The other camera's frames do not feed the watchdog."""
    pipes = scenario.folder / "pipes"
    pipes.mkdir(exist_ok=True)
    if not (pipes / "1.png").exists():
        os.mkfifo(pipes / "1.png")
    scenario.system.write_config(**scenario.config(clip={"source": str(pipes), "frame_timeout": 0.1}))
    scenario.system.running.process.send_signal(signal.SIGHUP)  # what comes of it may wait for frames: a swap back, say
    scenario.system.running.manager.wait("camera clip hangs")
    scenario.system.write_config()
    yield from _aborted(scenario)


def _aborted(scenario: Scenario) -> Iterator[None]:
    """Wait for the manager's abort, then restart the service like the manager."""
    service = scenario.system.running
    if not service.aborted.wait(30):
        raise RigError("the watchdog did not abort a service that hangs")
    service.process.wait(30)
    yield from _service_is_away(scenario)


def _service_is_away(scenario: Scenario) -> Iterator[None]:
    """It has ended: the broker publishes `offline`, as soon as it can."""
    scenario.system.record_kill()
    if scenario.alone:
        scenario.wait_for_retained("availability", "offline")
    yield
    scenario.start_service()


@fault("config", "config reloaded", alone=True)
def config_reloaded(scenario: Scenario) -> Iterator[None]:
    """SIGHUP with a changed value: `info` has the new config's digest. A model chosen by command is reverted, too."""
    before = scenario.retained("info")["config_sha256"]
    scenario.system.keys["top_k"] = 4 - scenario.system.keys.get("top_k", 3)
    scenario.system.write_config()
    took, said = scenario.system.running.reload()
    scenario.time("SIGHUP to reloaded", took, 1.0)
    if "config reloaded: applied " not in said or "top_k" not in said:
        raise RigError(f"a config with another top_k was not applied: {said}")
    wait_until(lambda: scenario.retained("info")["config_sha256"] != before, "info to tell the new config")
    yield


@fault("config", "wrong config refused", alone=True)
def config_refused(scenario: Scenario) -> Iterator[None]:
    """SIGHUP with a mistake in the config: the status reports it, and nothing else changes."""
    before = scenario.retained("info")
    scenario.system.write_config(top_k=0)
    _, said = scenario.system.running.reload()
    if "config not reloaded: " not in said or "top_k: found 0, expected at least 1" not in said:
        raise RigError(f"a wrong config was not refused: {said}")
    scenario.system.write_config()
    if scenario.retained("info") != before:
        raise RigError("a wrong config changed something")
    yield
    scenario.system.running.reload()


@fault("commands", "command flood", alone=True)
def command_flood(scenario: Scenario) -> Iterator[None]:
    """One client sends as fast as the broker accepts: the topic is unsubscribed, and the status reports it."""
    flooder = Flooder(scenario.system.broker.port, scenario.system.device, scenario.random.choice(KINDS), FLOOD_SECONDS)
    try:
        scenario.wait_for_status("flood of messages on ")
        yield
        flooder.wait(TIMEOUT)
        wait_until(
            lambda: "flood of messages" not in scenario.system.running.manager.status, "the status to tell of no flood"
        )
    finally:
        flooder.close()


@fault("disk", "disk full while the broker is away", alone=True, disk=True)
def disk_full(scenario: Scenario) -> Iterator[None]:
    """Messages wait in memory, the status reports it, and none is lost."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.disk.fill()
    scenario.wait_for_status("not connected", "outbox in memory: ", seconds=ROOM_USED_UP)
    yield
    scenario.disk.empty()
    scenario.system.proxy.restore(forget=True)


@fault("disk", "broker returns while the disk is full", alone=True, disk=True)
def disk_full_broker_returns(scenario: Scenario) -> Iterator[None]:
    """The messages on disk and in memory are sent."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.wait_for_status("not connected", "messages wait")
    scenario.disk.fill()
    yield
    scenario.system.proxy.restore(forget=True)
    scenario.system.settle()
    scenario.disk.empty()


@fault("disk", "service restarted while the disk is full", alone=True, disk=True)
def disk_full_service_returns(scenario: Scenario) -> Iterator[None]:
    """The messages in its outbox file are sent while the disk is still full."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.wait_for_status("not connected", "messages wait")
    scenario.disk.fill()
    before = len(scenario.system.pending)
    if scenario.random.random() < 0.5:
        scenario.system.running.kill()
    else:
        scenario.stop_service()
    scenario.system.record_kill()
    if len(scenario.system.pending) == before:
        raise RigError("no message was in the outbox file when the service ended: the fault shows nothing")
    yield
    scenario.system.proxy.restore(forget=True)
    scenario.start_service()
    scenario.system.settle()
    wait_until(lambda: not scenario.system.lost_from_outbox, "the messages in the outbox file")
    scenario.disk.empty()


@fault("disk", "disk read-only when the service starts", alone=True, disk=True)
def disk_read_only(scenario: Scenario) -> Iterator[None]:
    """The outbox is in memory until the disk can be written; the messages left in the file are sent then."""
    assert scenario.disk is not None
    scenario.stop_service()
    scenario.disk.protect()
    scenario.start_service()
    scenario.wait_for_status("outbox in memory: ")
    yield
    scenario.disk.release()


@fault("model", "model swapped by command", alone=True)
def model_swapped(scenario: Scenario) -> Iterator[None]:
    """Answered after the trial of the new model; `info` names it."""
    other = scenario.other_model()
    answer = send_command(scenario.system.broker.port, scenario.system.device, "model", model=other)
    if not answer["ok"]:
        raise RigError(f"a good model was not swapped in: {answer['outcome']}")
    wait_until(lambda: scenario.runs(other), "info to tell the new model")
    yield


@fault("model", "model file replaced, reloaded by SIGHUP", alone=True)
def model_replaced(scenario: Scenario) -> Iterator[None]:
    """The same line of the config, another file content."""
    other = scenario.other_model()
    scenario.put_model(other)
    scenario.system.running.reload()
    wait_until(lambda: scenario.runs(other), "info to tell the new model")
    yield


@fault("model", "refused model left in the config, service restarted", alone=True)
def refused_model_left(scenario: Scenario) -> Iterator[None]:
    """A flipped bit: refused by a reload, and replaced by the last good model at the next start, until corrected."""
    file = scenario.models / CURRENT
    content = file.read_bytes()
    good = hashlib.sha256(content).hexdigest()
    wait_until(lambda: good in scenario.remembered, "the good model to be kept")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    _, said = scenario.system.running.reload()
    if "config not reloaded: " not in said or "is damaged" not in said:
        raise RigError(f"a model with a flipped bit was not refused: {said}")
    scenario.wait_for_retained("swap", {"result": "refused"})
    scenario.stop_service()
    scenario.start_service()
    scenario.wait_for_retained("swap", {"result": "fallback", "boot": scenario.retained("info")["boot"]})
    info = scenario.retained("info")
    if info["model"]["sha256"] != good or info["model_refused"] is None:
        raise RigError(f"the last good model is not in use, or not reported: {info}")
    scenario.wait_for_status("model refused, another one is in use: ")
    yield
    file.write_bytes(content)
    scenario.system.running.reload()
    scenario.wait_for_retained("swap", {"result": "settled", "trigger": "signal"})


@fault("model", "broken models refused by command", alone=True)
def model_refused(scenario: Scenario) -> Iterator[None]:
    """One truncated, one invalid, one missing: each answered, and the old model stays in use."""
    before = scenario.retained("info")
    (scenario.models / "cut.safetensors").write_bytes((scenario.models / CURRENT).read_bytes()[:50_000])
    (scenario.models / "text.safetensors").write_text("no model")
    for name in ("cut", "text", "gone", "../cut"):
        answer = send_command(scenario.system.broker.port, scenario.system.device, "model", model=name)
        if answer["ok"]:
            raise RigError(f"the broken model {name} was taken: {answer['outcome']}")
    if scenario.retained("info") != before:
        raise RigError("a broken model changed something")
    yield
