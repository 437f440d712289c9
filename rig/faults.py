"""What can happen to broker, network, camera, disk and service, each as a story: begin, what is then so, and end.

A story is a generator. Up to its `yield` something breaks, and what the service says of it is checked; after it the
part is whole again. The suite then waits for frames of both cameras.
"""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rig.commander import ask
from rig.flooder import KINDS, Flooder
from rig.patience import PATIENCE, RigError, until
from rig.stage import CAMERA_TIMEOUT, CURRENT, STREET, Stage

FLOOD_SECONDS = 3.0

Story: TypeAlias = Callable[[Stage], Iterator[None]]


@dataclass(frozen=True)
class Fault:
    """One story. Two faults may come together where they are of different parts.

    alone: with no other, as it needs the others to see what came of it, or as messages that wait in memory would
    rightly be lost with the service. disk: it needs a disk of the rig's own.
    """

    part: str
    name: str
    story: Story
    alone: bool = False
    disk: bool = False


FAULTS: list[Fault] = []

ROOM_USED_UP = 60.0
"""Seconds within which messages use up the room that the outbox file has of its own on a full disk."""


def fault(part: str, name: str, alone: bool = False, disk: bool = False) -> Callable[[Story], Story]:
    """Put a story into the list."""

    def put(story: Story) -> Story:
        FAULTS.append(Fault(part, name, story, alone, disk))
        return story

    return put


@fault("broker", "broker killed, back with what it saved")
def broker_killed(stage: Stage) -> Iterator[None]:
    """SIGKILL."""
    yield
    stage.rig.restart_broker(signal.SIGKILL, empty=False, pause=lambda: stage.pause(0.1, 2.0))


@fault("broker", "broker stopped, back empty")
def broker_empty(stage: Stage) -> Iterator[None]:
    """All retained topics must come again."""
    yield
    stage.rig.restart_broker(signal.SIGTERM, empty=True, pause=lambda: stage.pause(0.1, 2.0))


@fault("broker", "broker frozen")
def broker_frozen(stage: Stage) -> Iterator[None]:
    """Its connections stay, and nothing is answered."""
    stage.rig.broker.freeze()
    yield
    stage.rig.broker.thaw()
    until(stage.rig.witness.subscribed.is_set, "the subscriber")


@fault("broker", "network to the broker cut")
def network_reset(stage: Stage) -> Iterator[None]:
    """The broker tells the last will."""
    stage.rig.network.reset()
    stage.becomes("availability", "offline")
    yield
    stage.rig.network.mend(forget=True)


@fault("broker", "network to the broker silent")
def network_silent(stage: Stage) -> Iterator[None]:
    """Nothing arrives, and nobody is told. Afterwards the old connection may live on."""
    stage.rig.network.silence()
    stage.pause(0.5, 3.0)
    yield
    stage.rig.network.mend(forget=stage.random.random() < 0.5)


@fault("broker", "acknowledgements swallowed")
def acknowledgements_swallowed(stage: Stage) -> Iterator[None]:
    """Some or all; what was not acknowledged is sent again on a new connection."""
    count = stage.random.choice([3, 25, float("inf")])
    stage.rig.network.swallow(count)
    if stage.alone and count == float("inf"):
        stage.says("has not acknowledged a message")
    yield
    stage.rig.network.pass_all()


@fault("camera", "RTSP server killed")
def camera_killed(stage: Stage) -> Iterator[None]:
    """It comes back with pictures of another size."""
    stage.camera.kill()
    _camera_is_away(stage)
    yield
    width, height = stage.random.choice([(320, 240), (640, 360), (176, 144)])
    stage.camera.start(width, height)


@fault("camera", "RTSP server frozen")
def camera_frozen(stage: Stage) -> Iterator[None]:
    """It holds its connections and gives no frame."""
    stage.camera.freeze()
    stage.pause(0.2, 3 * CAMERA_TIMEOUT)
    yield
    stage.camera.thaw()


@fault("camera", "network to the camera cut")
def cable_reset(stage: Stage) -> Iterator[None]:
    """Connections are refused."""
    stage.cable.reset()
    _camera_is_away(stage)
    yield
    stage.cable.mend(forget=True)


@fault("camera", "network to the camera silent")
def cable_silent(stage: Stage) -> Iterator[None]:
    """Nothing arrives, and nobody is told."""
    stage.cable.silence()
    stage.pause(0.2, 3 * CAMERA_TIMEOUT)
    yield
    stage.cable.mend(forget=stage.random.random() < 0.5)


def _camera_is_away(stage: Stage) -> None:
    """The status says so, and of the street only; told where the broker is there to be told."""
    if stage.alone:
        stage.becomes(f"{STREET}/status", {"status": "failed"})
        stage.becomes("clip/status", {"status": "running", "reason": None})


@fault("service", "service killed")
def service_killed(stage: Stage) -> Iterator[None]:
    """SIGKILL. What its outbox file holds then must arrive."""
    stage.rig.running.kill()
    yield from _service_is_away(stage)


@fault("service", "service stopped and started")
def service_stopped(stage: Stage) -> Iterator[None]:
    """SIGTERM."""
    stage.stop_service()
    yield from _service_is_away(stage)


@fault("service", "service stopped for a moment")
def service_frozen(stage: Stage) -> Iterator[None]:
    """SIGSTOP, shorter than its watchdog's patience: it goes on as if nothing had been."""
    service = stage.rig.running
    service.process.send_signal(signal.SIGSTOP)
    stage.pause(0.1, 1.0)
    service.process.send_signal(signal.SIGCONT)
    yield


@fault("service", "service frozen until its watchdog aborts it")
def service_starved(stage: Stage) -> Iterator[None]:
    """SIGSTOP for good."""
    stage.rig.running.process.send_signal(signal.SIGSTOP)
    yield from _aborted(stage)


@fault("service", "a camera's thread hangs until the watchdog aborts the service")
def thread_hangs(stage: Stage) -> Iterator[None]:
    """Reading a pipe that nobody writes blocks for ever. The other camera's frames do not feed the watchdog."""
    pipes = stage.folder / "pipes"
    pipes.mkdir(exist_ok=True)
    if not (pipes / "1.png").exists():
        os.mkfifo(pipes / "1.png")
    stage.rig.write_config(**stage.config(clip={"source": str(pipes), "frame_timeout": 0.1}))
    stage.rig.running.process.send_signal(signal.SIGHUP)  # what comes of it may wait for frames: a swap back, say
    stage.rig.running.manager.wait("camera clip hangs")
    stage.rig.write_config()
    yield from _aborted(stage)


def _aborted(stage: Stage) -> Iterator[None]:
    """Wait for the manager's abort; the service is started again as its manager would."""
    service = stage.rig.running
    if not service.aborted.wait(30):
        raise RigError("the watchdog did not abort a service that hangs")
    service.process.wait(30)
    yield from _service_is_away(stage)


def _service_is_away(stage: Stage) -> Iterator[None]:
    """It has ended: the broker says so, as soon as it can."""
    stage.rig.lost_service()
    if stage.alone:
        stage.becomes("availability", "offline")
    yield
    stage.start_service()


@fault("config", "config reloaded", alone=True)
def config_reloaded(stage: Stage) -> Iterator[None]:
    """SIGHUP with another value: `info` tells the new config's digest. A model chosen by command goes back, too."""
    before = stage.retained("info")["config_sha256"]
    stage.rig.keys["top_k"] = 4 - stage.rig.keys.get("top_k", 3)
    stage.rig.write_config()
    took, said = stage.rig.running.reload()
    stage.time("SIGHUP to reloaded", took, 1.0)
    if "config reloaded: applied " not in said or "top_k" not in said:
        raise RigError(f"a config with another top_k was not applied: {said}")
    until(lambda: stage.retained("info")["config_sha256"] != before, "info to tell the new config")
    yield


@fault("config", "wrong config refused", alone=True)
def config_refused(stage: Stage) -> Iterator[None]:
    """SIGHUP with a mistake in it: the status says which, and nothing else changes."""
    before = stage.retained("info")
    stage.rig.write_config(top_k=0)
    _, said = stage.rig.running.reload()
    if "config not reloaded: " not in said or "top_k: found 0, expected at least 1" not in said:
        raise RigError(f"a wrong config was not refused: {said}")
    stage.rig.write_config()
    if stage.retained("info") != before:
        raise RigError("a wrong config changed something")
    yield
    stage.rig.running.reload()


@fault("commands", "command flood", alone=True)
def command_flood(stage: Stage) -> Iterator[None]:
    """One client sends as fast as the broker takes it. The topic is not heard for a while, and the status says so."""
    flooder = Flooder(stage.rig.broker.port, stage.rig.device, stage.random.choice(KINDS), FLOOD_SECONDS)
    try:
        stage.says("flood of messages on ")
        yield
        flooder.wait(PATIENCE)
        until(lambda: "flood of messages" not in stage.rig.running.manager.status, "the status to tell of no flood")
    finally:
        flooder.close()


@fault("disk", "disk full while the broker is away", alone=True, disk=True)
def disk_full(stage: Stage) -> Iterator[None]:
    """Messages wait in memory, the status says so, and none is lost."""
    assert stage.disk is not None
    stage.rig.network.reset()
    stage.disk.fill()
    stage.says("not connected", "outbox in memory: ", seconds=ROOM_USED_UP)
    yield
    stage.disk.empty()
    stage.rig.network.mend(forget=True)


@fault("disk", "broker returns while the disk is full", alone=True, disk=True)
def disk_full_broker_returns(stage: Stage) -> Iterator[None]:
    """What is on disk is sent, and all that waits in memory."""
    assert stage.disk is not None
    stage.rig.network.reset()
    stage.says("not connected", "messages wait")
    stage.disk.fill()
    yield
    stage.rig.network.mend(forget=True)
    stage.rig.settle()
    stage.disk.empty()


@fault("disk", "service restarted while the disk is full", alone=True, disk=True)
def disk_full_service_returns(stage: Stage) -> Iterator[None]:
    """What its outbox file holds is sent, and the disk still full."""
    assert stage.disk is not None
    stage.rig.network.reset()
    stage.says("not connected", "messages wait")
    stage.disk.fill()
    before = len(stage.rig.owed)
    if stage.random.random() < 0.5:
        stage.rig.running.kill()
    else:
        stage.stop_service()
    stage.rig.lost_service()
    if len(stage.rig.owed) == before:
        raise RigError("no message was in the outbox file when the service ended: the fault shows nothing")
    yield
    stage.rig.network.mend(forget=True)
    stage.start_service()
    stage.rig.settle()
    until(lambda: not stage.rig.lost_from_outbox, "the messages in the outbox file")
    stage.disk.empty()


@fault("disk", "disk read-only when the service starts", alone=True, disk=True)
def disk_read_only(stage: Stage) -> Iterator[None]:
    """The outbox is in memory until the disk takes it; what was left in the file then comes."""
    assert stage.disk is not None
    stage.stop_service()
    stage.disk.protect()
    stage.start_service()
    stage.says("outbox in memory: ")
    yield
    stage.disk.release()


@fault("model", "model swapped by command", alone=True)
def model_swapped(stage: Stage) -> Iterator[None]:
    """Answered when the new network has served its trial; `info` tells it."""
    other = stage.other_model()
    answer = ask(stage.rig.broker.port, stage.rig.device, "model", model=other)
    if not answer["ok"]:
        raise RigError(f"a good model was not swapped in: {answer['outcome']}")
    until(lambda: stage.runs(other), "info to tell the new model")
    yield


@fault("model", "model file replaced, reloaded by SIGHUP", alone=True)
def model_replaced(stage: Stage) -> Iterator[None]:
    """The same line of the config, another content."""
    other = stage.other_model()
    stage.put_model(other)
    stage.rig.running.reload()
    until(lambda: stage.runs(other), "info to tell the new model")
    yield


@fault("model", "refused model left in the config, service restarted", alone=True)
def refused_model_left(stage: Stage) -> Iterator[None]:
    """A flipped bit: refused by a reload, and at the next start the last good model serves; put right, all is over."""
    file = stage.models / CURRENT
    content = file.read_bytes()
    good = hashlib.sha256(content).hexdigest()
    until(lambda: good in stage.remembered, "the good model to be kept")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    _, said = stage.rig.running.reload()
    if "config not reloaded: " not in said or "is damaged" not in said:
        raise RigError(f"a model with a flipped bit was not refused: {said}")
    stage.becomes("swap", {"result": "refused"})
    stage.stop_service()
    stage.start_service()
    stage.becomes("swap", {"result": "fallback", "boot": stage.retained("info")["boot"]})
    info = stage.retained("info")
    if info["model"]["sha256"] != good or info["model_refused"] is None:
        raise RigError(f"not the last good model serves, or nobody says so: {info}")
    stage.says("model refused, another one is in use: ")
    yield
    file.write_bytes(content)
    stage.rig.running.reload()
    stage.becomes("swap", {"result": "settled", "trigger": "signal"})


@fault("model", "broken models refused by command", alone=True)
def model_refused(stage: Stage) -> Iterator[None]:
    """One cut off, one that is none, one that is not there: answered, and the old one serves on."""
    before = stage.retained("info")
    (stage.models / "cut.safetensors").write_bytes((stage.models / CURRENT).read_bytes()[:50_000])
    (stage.models / "text.safetensors").write_text("no model")
    for name in ("cut", "text", "gone", "../cut"):
        answer = ask(stage.rig.broker.port, stage.rig.device, "model", model=name)
        if answer["ok"]:
            raise RigError(f"the broken model {name} was taken: {answer['outcome']}")
    if stage.retained("info") != before:
        raise RigError("a broken model changed something")
    yield
