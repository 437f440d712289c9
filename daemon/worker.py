"""The worker: takes the newest frames in turn, sends each through its pipeline and offers the message."""

import logging
import time

from edgemeta.daemon.counters import FrameCounters
from edgemeta.daemon.latency import StageLatencies
from edgemeta.daemon.pipeline import Pipeline, Step
from edgemeta.daemon.publisher import Publisher
from edgemeta.daemon.pulse import Pulse
from edgemeta.daemon.slot import CapturedFrame, NewestFrames
from edgemeta.daemon.topics import FRAME, STATE
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError, SessionLostError

log = logging.getLogger(__name__)

FRAME_WITHIN = 10.0
"""Seconds after which a worker that has not classified the frame in hand counts as hung."""


class Worker:
    """Runs in one thread until the frames are closed; the frame in hand is finished."""

    def __init__(
        self,
        frames: NewestFrames,
        pipelines: dict[str, Pipeline],
        counters: dict[str, FrameCounters],
        latencies: StageLatencies,
        publisher: Publisher,
    ) -> None:
        self._frames = frames
        self._pipelines = pipelines
        self._counters = counters
        self._latencies = latencies
        self._publisher = publisher
        self._failing: dict[str, str] = {}
        self.pulse = Pulse("worker")

    def run(self) -> None:
        """Handle frame after frame. Raises SessionLostError: then every later frame would fail, too."""
        while (captured := self._frames.take()) is not None:
            self._handle(captured)

    def _handle(self, captured: CapturedFrame) -> None:
        """Send one frame through. While the backend fails the pulse stays owed: only a frame classified pays it."""
        camera = captured.camera
        self.pulse.owe(f"no frame classified within {FRAME_WITHIN:g} s", FRAME_WITHIN)
        counters = self._counters[camera]
        try:
            step = self._pipelines[camera].step(captured, counters.drops(captured.superseded))
        except (FrameError, BackendError) as error:
            counters.failed += 1
            if isinstance(error, SessionLostError):
                raise
            self._log_failure(camera, str(error))
            if isinstance(error, FrameError):
                self.pulse.rest()
            return
        counters.processed += 1
        self._failing.pop(camera, None)
        self._publish(step, captured)
        self.pulse.rest()

    def _publish(self, step: Step, captured: CapturedFrame) -> None:
        begun = time.monotonic_ns()
        outgoing = self._publisher.encode(FRAME, step.frame, captured.camera, captured.frame.captured_ns)
        for stage, duration in step.stages.items():
            self._latencies.add(stage, duration)
        self._latencies.add("encode", outgoing.made_ns - begun)
        self._publisher.send(outgoing)
        if step.state is not None:
            self._publisher.send(self._publisher.encode(STATE, step.state, captured.camera))

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log a fault once until a frame goes well; the count goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason, extra={"camera": camera})
