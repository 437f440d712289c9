"""The worker: takes the newest frames in turn, sends each through its pipeline and offers the message."""

import logging
import time
from dataclasses import dataclass

from edgemeta.daemon.counters import FrameCounters
from edgemeta.daemon.latency import LatencyWindow
from edgemeta.daemon.messages import Message, Stages
from edgemeta.daemon.mqtt import MqttLink
from edgemeta.daemon.outbox import Outgoing
from edgemeta.daemon.pipeline import Pipeline
from edgemeta.daemon.slot import CapturedFrame, NewestFrames
from edgemeta.daemon.topics import FRAME, STATE, Topics
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError

log = logging.getLogger(__name__)


class StageWindows:
    """One latency window for each stage of a frame's way."""

    def __init__(self) -> None:
        self.by_stage = {stage: LatencyWindow() for stage in Stages.model_fields}

    def drain(self) -> Stages:
        """Sum up the period and begin the next."""
        return Stages(**{stage: window.drain() for stage, window in self.by_stage.items()})


def encode(message: Message) -> bytes:
    """Return a message's JSON, UTF-8."""
    return message.model_dump_json().encode()


@dataclass(frozen=True, eq=False)
class FrameReceipt:
    """What the MQTT thread counts when the broker has taken a frame message."""

    counters: FrameCounters
    windows: StageWindows
    captured_ns: int

    def __call__(self, message: Outgoing) -> None:
        """Count one published frame and how long it took."""
        now = time.monotonic_ns()
        self.counters.published += 1
        self.windows.by_stage["publish"].add(now - message.made_ns)
        self.windows.by_stage["total"].add(now - self.captured_ns)


class Worker:
    """Runs in one thread until the frames are closed; the frame in hand is finished."""

    def __init__(
        self,
        frames: NewestFrames,
        pipelines: dict[str, Pipeline],
        counters: dict[str, FrameCounters],
        windows: StageWindows,
        link: MqttLink,
        topics: Topics,
        qos: int,
    ) -> None:
        self._frames = frames
        self._pipelines = pipelines
        self._counters = counters
        self._windows = windows
        self._link = link
        self._topics = topics
        self._qos = qos
        self._failing: dict[str, str] = {}

    def run(self) -> None:
        """Handle frame after frame."""
        while (captured := self._frames.take()) is not None:
            self._handle(captured)

    def _handle(self, captured: CapturedFrame) -> None:
        camera = captured.camera
        counters = self._counters[camera]
        try:
            step = self._pipelines[camera].step(captured, counters.drops(captured.superseded))
        except (FrameError, BackendError) as error:
            counters.failed += 1
            self._log_failure(camera, str(error))
            return
        counters.processed += 1
        self._failing.pop(camera, None)
        begun = time.monotonic_ns()
        payload = encode(step.frame)
        receipt = FrameReceipt(counters, self._windows, captured.frame.captured_ns)
        message = Outgoing(self._topics.of(FRAME, camera), payload, self._qos, retain=False, taken=receipt)
        for stage, duration in step.stages.items():
            self._windows.by_stage[stage].add(duration)
        self._windows.by_stage["encode"].add(message.made_ns - begun)
        if not self._link.connected:
            counters.broker_away += 1
        elif not self._link.offer(message):
            counters.queue_full += 1
        if step.state is not None:
            self._link.retain(Outgoing(self._topics.of(STATE, camera), encode(step.state), 1, retain=True))

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log a fault once until a frame goes well; the count goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason)
