"""The worker: takes the newest frames in turn, sends each through its pipeline and offers the message."""

import logging
import time
from collections.abc import Callable, Sequence

from edgemeta.daemon.counters import FrameCounters
from edgemeta.daemon.latency import StageLatencies
from edgemeta.daemon.pipeline import Pipeline, Step
from edgemeta.daemon.publisher import Publisher
from edgemeta.daemon.pulse import Pulse
from edgemeta.daemon.slot import CapturedFrame, NewestFrames
from edgemeta.daemon.topics import EVENT, FRAME, STATE
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError, SessionLostError

log = logging.getLogger(__name__)

FRAME_WITHIN = 10.0
"""Seconds after which a worker that has not classified the frame in hand counts as hung."""


Watcher = Callable[[CapturedFrame, Step], None]
"""Hears of every frame once it was classified and its message offered; it must be quick."""

Spare = Callable[[str, BackendError], None]
"""Hears that the backend failed on a camera's frame, and may give its pipeline another network for that very frame."""


def _no_spare(_camera: str, _error: BackendError) -> None:
    """Leave the pipeline as it is."""


class Worker:
    """Runs in one thread until the frames are closed; the frame in hand is finished."""

    def __init__(
        self,
        frames: NewestFrames,
        pipelines: dict[str, Pipeline],
        counters: dict[str, FrameCounters],
        latencies: StageLatencies,
        publisher: Publisher,
        watchers: Sequence[Watcher] = (),
        spare: Spare = _no_spare,
    ) -> None:
        self._frames = frames
        self._pipelines = pipelines
        self._counters = counters
        self._latencies = latencies
        self._publisher = publisher
        self._watchers = watchers
        self._spare = spare
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
            step = self._step(captured)
        except (FrameError, BackendError) as error:
            counters.failed += 1
            if isinstance(error, SessionLostError):
                raise
            self._log_failure(camera, str(error))
            if isinstance(error, FrameError):
                self.pulse.rest()
            return
        counters.processed += 1
        counters.newest = step.frame
        self._failing.pop(camera, None)
        self._publish(step, captured)
        for watcher in self._watchers:
            watcher(captured, step)
        self.pulse.rest()

    def _step(self, captured: CapturedFrame) -> Step:
        """Classify a frame; where the backend failed and another network has taken over, that one is asked."""
        pipeline, counters = self._pipelines[captured.camera], self._counters[captured.camera]
        before = counters.drops(captured.superseded), counters.withheld
        try:
            return pipeline.step(captured, *before)
        except BackendError as error:
            self._spare(captured.camera, error)
            if not pipeline.renewed:
                raise
            return pipeline.step(captured, *before)

    def _publish(self, step: Step, captured: CapturedFrame) -> None:
        """Offer the messages. A frame that is withheld is counted only after its own message was made."""
        for stage, duration in step.stages.items():
            self._latencies.add(stage, duration)
        if step.told.withheld:
            self._counters[captured.camera].withheld += 1
        else:
            begun = time.monotonic_ns()
            outgoing = self._publisher.encode(FRAME, step.frame, captured.camera, captured.frame.captured_ns)
            self._latencies.add("encode", outgoing.made_ns - begun)
            self._publisher.send(outgoing)
        for channel, message in ((STATE, step.told.state), (EVENT, step.told.event)):
            if message is not None:
                self._publisher.send(self._publisher.encode(channel, message, captured.camera))

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log a fault once until a frame goes well; the count goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason, extra={"camera": camera})
